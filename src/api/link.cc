// The shared library is the archive of this part and what that needs; CMake wants a source beside them.
