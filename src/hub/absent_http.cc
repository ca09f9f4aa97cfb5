// The build had no libcurl or no libcrypto: every download is refused with how to get them.
#include "hub/http.h"

namespace llada::hub {

static std::unexpected<Error> absent() {
  return invalid(
      "this program was built without libcurl or libcrypto, so it cannot download; install "
      "libcurl4-openssl-dev and libssl-dev (Debian) and build again, or fetch the files with another tool: its "
      "cache is read");
}

Result<std::unique_ptr<Http>> Http::create(HttpSettings) { return absent(); }
Result<std::unique_ptr<Checksum>> Checksum::sha256() { return absent(); }
Result<std::unique_ptr<Checksum>> Checksum::sha1() { return absent(); }

}  // namespace llada::hub
