// The shared library is the archive of this part and the libraries that it needs; CMake wants a source beside them.
