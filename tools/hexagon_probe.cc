// The first five experiments on a phone (docs/lab/hexagon-dsp.md), each one command of this program; the same program
// runs against the stand-in on a PC, where a test holds it to what the emulator answers. `llada-study doctor --device
// hexagon` does all of them and more; this program is small, and needs no model, no libraries and no CMake.
//   hexagon_probe query | map | matmul | ladder [MEBIBYTES] | speed [OUTPUTS]
// Prints "name value" lines; exit status 0: the experiment went well, 1: the DSP refused or answered wrongly, 2: usage.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>

#include "lab/hexagon/experiments.h"

namespace {

using namespace llada;
using namespace llada::hexagon;

using LibraryPtr = std::shared_ptr<Library>;

Result<std::shared_ptr<Session>> open(const LibraryPtr& library) {
  return Session::open(library, int64_t{7} << 29, 30);
}

Status query(const LibraryPtr& library) {
  const auto begin = std::chrono::steady_clock::now();
  LLADA_TRY(const auto session, open(library));
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  std::printf("library %s\ndsp %u\nmodule %s\narch %u\nthreads %u\nemulated %u\nopen_ms %.2f\n",
              library->path().c_str(), library->architecture().value_or(0), session->module().c_str(),
              session->info().arch, session->info().threads, session->info().emulated, ms);
  std::printf("unsigned_status %d\nvotes_refused %u\nvote_status %d\nmap_call %u\n", session->place().unsigned_status,
              session->votes().refused, session->votes().status, session->info().map_call);
  return {};
}

Status map(const LibraryPtr& library) {
  LLADA_TRY(const auto session, open(library));
  LLADA_TRY(const OneOp one, run_one_op(library, *session));
  std::printf("map_us %.1f\nvalue %.6f\nneeded %.6f\n", one.map_us, one.value, one.needed);
  return std::abs(one.value - one.needed) < 1e-4 ? Status{} : failed("the DSP's value is wrong");
}

Status matmul(const LibraryPtr& library) {
  LLADA_TRY(const auto session, open(library));
  LLADA_TRY(Product product, Product::make(library, session, 256));
  LLADA_TRY([[maybe_unused]] const Product::Run run, product.run(0));
  const Product::Check check = product.check();
  std::printf("worst_error %.6g\nhash %016llx\n", check.worst_error, static_cast<unsigned long long>(check.hash));
  return check.right() ? Status{} : failed("the DSP multiplies wrongly");
}

Status ladder(const LibraryPtr& library, int64_t bytes) {
  LLADA_TRY(const auto session, open(library));
  LLADA_TRY(const Space space, measure_space(library, *session, bytes));
  std::printf("step_mib %lld\nmapped_mib %lld\nlongest_map_us %.1f\nrefusal %s\nleft_mapped %lld\n",
              static_cast<long long>(bytes >> 20), static_cast<long long>(space.bytes >> 20), space.longest_map_us,
              space.refusal.c_str(), static_cast<long long>(session->mapped_bytes()));
  return space.bytes > 0 ? Status{} : failed("not even one buffer could be mapped");
}

// With the votes for clock and vector units and without them, on one thread to all.
Status speed(const LibraryPtr& library, int64_t outputs) {
  LLADA_TRY(const auto session, open(library));
  LLADA_TRY(Product product, Product::make(library, session, outputs));
  for (const bool voted : {false, true}) {
    LLADA_TRY([[maybe_unused]] const Session::Votes votes, session->vote(voted));
    for (uint32_t threads = voted ? 1 : session->info().threads; threads <= session->info().threads; ++threads) {
      Product::Run best{1e12, 1e12, 0, 0};
      for (int i = 0; i < (session->info().emulated != 0 ? 1 : 5); ++i) {
        LLADA_TRY(const Product::Run run, product.run(threads));
        if (run.dsp_us < best.dsp_us) best = run;
      }
      std::printf("votes %d\nthreads %u\ncall_us %.1f\ndsp_us %.1f\ncycles %llu\ngmac_per_s %.3f\npackets %llu\n",
                  voted, threads, best.call_us, best.dsp_us, static_cast<unsigned long long>(best.cycles),
                  best.dsp_us > 0 ? product.macs() / best.dsp_us / 1e3 : 0,
                  static_cast<unsigned long long>(best.packets));
    }
  }
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "";
  const long long number = count > 2 ? std::atoll(arguments[2]) : 0;
  const bool known = what == "query" || what == "map" || what == "matmul" || what == "ladder" || what == "speed";
  if (!known || number < 0 || number > 32768 || (what == "ladder" && number > 2047) ||
      number % 32 * (what == "speed") != 0) {
    std::fprintf(stderr, "usage: hexagon_probe query | map | matmul | ladder [MEBIBYTES] | speed [OUTPUTS]\n");
    return 2;
  }
  const char* path = std::getenv("LLADA_CDSPRPC");
  const auto library = Library::open(path != nullptr ? path : "");
  Status status;
  if (!library)
    status = std::unexpected(library.error());
  else if (what == "query")
    status = query(*library);
  else if (what == "map")
    status = map(*library);
  else if (what == "matmul")
    status = matmul(*library);
  else if (what == "ladder")
    status = ladder(*library, (number > 0 ? number : 256) << 20);
  else
    status = speed(*library, number > 0 ? number : 4096);
  if (!status) std::printf("error %s\n", status.error().message.c_str());
  return status ? 0 : 1;
}
