// Loads llada.dll as Python's ctypes does, looks up the functions that are named, and unloads it: twice.
// usage: load LIBRARY FUNCTION...
#include <stdio.h>
#include <windows.h>

typedef const char* (*Text)(void);

int wmain(int count, wchar_t** words) {
  const char* version = "";
  static char kept[100];
  for (int turn = 0; turn < 2; ++turn) {
    const HMODULE library =
        LoadLibraryExW(words[1], NULL, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
    if (library == NULL) return printf("error %lu\n", GetLastError()), 2;
    for (int i = 2; i < count; ++i) {
      char name[100];
      if (WideCharToMultiByte(CP_UTF8, 0, words[i], -1, name, sizeof name, NULL, NULL) == 0) return 3;
      if (GetProcAddress(library, name) == NULL) return printf("%s\n", name), 1;
    }
    version = ((Text)(void*)GetProcAddress(library, "llada_version"))();
    snprintf(kept, sizeof kept, "%s", version);
    if (!FreeLibrary(library)) return 4;
  }
  printf("%d %s\n", count - 2, kept);
  return 0;
}
