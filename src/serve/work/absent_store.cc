// Compiled where SQLite is missing.
#include "serve/work/kept_objects.h"

namespace llada::serve {

std::string_view Store::absence() {
  return "this program was built without SQLite; install its library (Debian: libsqlite3-dev) and build again";
}

Result<std::unique_ptr<Store>> Store::open(const std::string& path) { return failed("{}: {}", path, absence()); }

}  // namespace llada::serve
