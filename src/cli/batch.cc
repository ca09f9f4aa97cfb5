// llada batch: a file of requests to a file of answers (serve/work/batch.h), to be gone on with after any interruption.
#include "serve/work/batch.h"

#include <chrono>

#include "base/figures.h"
#include "base/memory_usage.h"
#include "base/os.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/hub_access.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/terminal.h"
#include "cli/workspace.h"
#include "serve/work/service.h"

namespace llada::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct BatchCommand {
  ModelOptions model;
  std::optional<std::string> first_word;
  std::string in, out, shard;
  int64_t parallel = 8;
  serve::BatchOptions batch;
  bool quiet = false;
};

// MODEL IN OUT, or IN OUT where -m or -hf names the model.
Status place_words(BatchCommand& o) {
  if (o.model.path.empty() && o.model.hub.empty()) {
    o.model.path = o.first_word.value_or("");
  } else if (o.out.empty()) {
    o.out = std::exchange(o.in, o.first_word.value_or(""));
  } else {
    return invalid("MODEL: found '{}' beside {} {}, needed one of the two", *o.first_word,
                   o.model.path.empty() ? "-hf" : "--model", o.model.path.empty() ? o.model.hub : o.model.path);
  }
  if (o.in.empty() || o.out.empty()) return invalid("needed two files: IN (requests) and OUT (answers)");
  return {};
}

Status read_shard(BatchCommand& o) {
  if (o.shard.empty()) return {};
  const size_t slash = o.shard.find('/');
  const auto shards = parse_integer(slash == std::string::npos ? "" : o.shard.substr(slash + 1), 1, 1'000'000);
  const auto shard = parse_integer(o.shard.substr(0, slash), 1, shards.value_or(0));
  if (!shards || !shard) return invalid("--shard: found '{}', needed I/N with I from 1 to N, such as 1/4", o.shard);
  o.batch.shard = *shard, o.batch.shards = *shards;
  return {};
}

// The time left at the pace of this run.
class Pace {
 public:
  Pace(Progress& progress, int64_t bytes) : progress_(progress), bytes_(static_cast<double>(bytes)) {}

  void update(const serve::BatchCounts& counts, int64_t tokens) {
    const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    const auto done = static_cast<double>(counts.read_bytes),
               new_bytes = done - static_cast<double>(counts.skipped_bytes);
    std::string what = fmt::format("{} answered", counts.answered);
    if (counts.failed > 0) what += fmt::format(", {} failed", counts.failed);
    if (seconds > 1) what += fmt::format(", {:.1f} tokens/s", static_cast<double>(tokens) / seconds);
    if (bytes_ > done && new_bytes > 0 && counts.answered > 0 && seconds > 2)
      what += ", " + time_left_text(seconds * (bytes_ - done) / new_bytes);
    progress_.update(bytes_ > 0 ? done / bytes_ : 0, what);
  }

 private:
  Progress& progress_;
  const double bytes_;  // of the input; 0: nobody knows
  const Clock::time_point begin_ = Clock::now();
};

std::string summary(const BatchCommand& o, const serve::BatchCounts& counts, int64_t tokens, double seconds) {
  std::string text = fmt::format("llada batch: {} answered", counts.answered);
  if (counts.failed > 0) text += fmt::format(", {} of them with an error", counts.failed);
  if (counts.there > 0) text += fmt::format(", {} were there", counts.there);
  if (o.batch.shards > 1) text += fmt::format(", shard {} of {}", o.batch.shard, o.batch.shards);
  return text + fmt::format("; {} in {:.1f} s\n", counted(tokens, "token"), seconds);
}

Result<int> answer(BatchCommand& o, serve::LineSource& input, serve::BatchFile& output, serve::BatchDone& done) {
  // Nobody else asks: nothing waits too long, and there is room for every request that is taken from the file.
  constexpr double kEver = 1e9;
  serve::Service service({.admission = {.running = o.parallel, .waiting = int64_t{1} << 20, .wait_seconds = kEver},
                          .answer_seconds = kEver,
                          .kept_prefix_bytes = int64_t{1} << 30});
  {
    LLADA_TRY(auto model, open_model(o.model, o.quiet));
    LLADA_TRY_STATUS(service.set_model(std::move(model)));
  }
  const InterruptGuard guard;
  std::optional<Progress> progress(std::in_place, "batch");
  Pace pace(*progress, input.size());
  const auto begin = Clock::now();
  auto synced = begin;
  Status kept;
  o.batch.in_flight = 2 * o.parallel;  // the next ones are read while these are computed
  o.batch.write = [&](bool, std::string_view line) { return output.add(line); };
  serve::Batch batch(service, input, done, o.batch);
  do {
    if (!o.quiet) pace.update(batch.counts(), service.metrics().tokens());
    if (Clock::now() - synced > std::chrono::seconds(5)) {
      synced = Clock::now();
      kept = output.sync();
    }
    if (!kept || InterruptGuard::signal_number() != 0) batch.cancel();
  } while (batch.tick());
  const auto counts = batch.finish();
  progress.reset();
  if (!counts) return std::unexpected(counts.error());
  LLADA_TRY_STATUS(kept);
  LLADA_TRY_STATUS(output.sync());
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (!o.quiet) note(summary(o, *counts, service.metrics().tokens(), seconds));
  if (const int signal = InterruptGuard::signal_number(); signal != 0) {
    if (!o.quiet) note("llada batch: interrupted; the same command goes on\n");
    return 128 + signal;
  }
  return 0;
}

Result<int> run(BatchCommand& o) {
  LLADA_TRY_STATUS(place_words(o));
  LLADA_TRY_STATUS(read_shard(o));
  LLADA_TRY(auto input, serve::LineSource::open(o.in, serve::kMostBatchLine));
  if (input.is_file(o.out)) return invalid("{}: found the file of requests, needed another one for answers", o.out);
  const bool was_there = o.out == "-" || os::exists(o.out);
  serve::BatchDone done;
  LLADA_TRY(auto output, serve::BatchFile::open(o.out, done));
  const auto status = answer(o, input, output, done);
  if (!status && !was_there && output.lines() == 0) static_cast<void>(os::remove(o.out));
  return status;
}

}  // namespace

Work setup_batch(CLI::App& app) {
  auto o = std::make_shared<BatchCommand>();
  add_model_options(app, o->model, o->first_word);
  constexpr const char* kFiles = "Files";
  app.add_option("IN", o->in, "requests, a JSON object a line: custom_id, method, url, body; - is stdin")
      ->type_name("FILE")
      ->group(kFiles);
  app.add_option("OUT", o->out,
                 "answers, a line each, added to those of an earlier run of the same requests; - is stdout")
      ->type_name("FILE")
      ->group(kFiles);
  app.add_option("--shard", o->shard, "only every N-th request, from the I-th on; the others are for other processes")
      ->type_name("I/N")
      ->group("Work");
  add_integer_option(app, "--parallel", o->parallel, 1, 4096, "answers computed at a time (8)")->group("Work");
  app.add_flag("-q,--quiet", o->quiet, "errors only")->group("Output");
  app.footer(
      "url is a route of llada serve: /v1/chat/completions, /v1/completions, /v1/responses, /v1/fim/completions, "
      "/infill or /v1/llada/score. A request that is refused or fails is a line with its error. The order of the "
      "answers is free; a request that OUT has is not asked for again, so the same command goes on after any end. To "
      "ask again for those that failed, take their lines out of OUT.\n\n"
      "Exit status: 0 every request has its line, 1 the work failed, 2 a file or an option is wrong, 128 + N stopped "
      "by "
      "signal N.\n\n"
      "Examples:\n"
      "  llada batch model.gguf requests.jsonl answers.jsonl\n"
      "  llada batch model.gguf requests.jsonl answers.2.jsonl --shard 2/4 --threads 8");
  return [o]() -> Result<int> {
    return_freed_memory();
    read_environment(o->model.load);
    return run(*o);
  };
}

}  // namespace llada::cli
