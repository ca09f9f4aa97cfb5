// The build had no libcurl or no libcrypto: every download is refused with how to get them.
#include "hub/http.h"

namespace llada::hub {

struct Http::State {};
struct Checksum::State {};

static std::unexpected<Error> absent() {
  return invalid(
      "this program was built without libcurl or libcrypto, so it cannot download; install them (Debian: "
      "libcurl4-openssl-dev libssl-dev) and build again, or fetch the files with another tool: its cache is read");
}

Result<Http> Http::create(HttpSettings) { return absent(); }
Http::Http(std::unique_ptr<State> state) : state_(std::move(state)) {}
Http::Http(Http&&) noexcept = default;
Http::~Http() = default;
HttpAnswer Http::get(const std::string&, size_t) { return {}; }
HttpAnswer Http::head(const std::string&) { return {}; }
HttpAnswer Http::download(const std::string&, int64_t, const BodySink&) { return {}; }

Checksum::Checksum(std::unique_ptr<State> state) : state_(std::move(state)) {}
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;
Checksum::~Checksum() = default;
Result<Checksum> Checksum::sha256() { return absent(); }
Result<Checksum> Checksum::git_blob(int64_t) { return absent(); }
void Checksum::update(std::span<const std::byte>) {}
std::string Checksum::hex() { return ""; }

}  // namespace llada::hub
