// Shared by `run` and `infill`: a loaded model with a session, the trace, and the display of an answer while it is
// made.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "engine/expert_setup.h"
#include "engine/session.h"
#include "eval/routing_recorder.h"

namespace llada::cli {

struct ShowOptions {
  bool live = false;  // asked for; terminals show it unless no_live, json or quiet
  bool no_live = false, json = false, verbose = false, quiet = false;
  int delay_ms = 0;
  std::string trace_path;
  std::string routing_path;  // the file of the routers' decisions of a mixture; written by close()
};

// --live, --no-live, --live-delay, --json, --quiet, --verbose and --trace.
void add_show_options(CLI::App& app, ShowOptions& options);

class Workspace {
 public:
  // Loads the model; a trace that could not be written later is refused first.
  // kept_prefix_bytes: most bytes of K/V kept between requests, where the model allows it (memory/prefix_cache.h).
  static Result<std::unique_ptr<Workspace>> open(const ModelOptions& model, const ShowOptions& show,
                                                 int64_t kept_prefix_bytes = 0);

  const Model& model() const { return *model_; }
  Session& session() const { return *session_; }
  Trace* trace() { return trace_ ? &*trace_ : nullptr; }

  // Runs the request, repaints where asked for and ends the run on a signal. The picture is gone afterwards, and the
  // time it took is not in the stats. An error of stdout ends the run and is returned.
  Result<Generation> answer(const Ready& ready);

  // The first tokens of the last answer, as far as they are final: the text to show when the run fails half-way.
  const std::vector<int32_t>& final_tokens() const { return final_tokens_; }

  // Writes the trace and the routing, where they were asked for.
  Status close() const;

 private:
  explicit Workspace(const ShowOptions& show) : show_(show) {}
  ShowOptions show_;
  std::optional<Trace> trace_;
  std::unique_ptr<RoutingRecorder> routing_;
  std::shared_ptr<const Model> model_;
  std::unique_ptr<Session> session_;
  std::vector<int32_t> final_tokens_;
  bool told_cost_ = false;  // the note about a long prompt is written
};

// Loads the model that -m or -hf names. Unless quiet, its progress is shown after half a second (progress.h), and
// settings of its file that are not followed (ModelConfig::notes) become warnings.
Result<std::shared_ptr<const Model>> open_model(const ModelOptions& options, bool quiet = false);

// Opens a workspace. Before the weights are read, the decoding options are resolved for the model, a seed is drawn, and
// `lay` is called, whose error ends it. Notes and warnings about the options are written once it is open.
Result<std::unique_ptr<Workspace>> open_to_answer(const ModelOptions& model, const ShowOptions& show,
                                                  DecodeFlags& decode, const std::function<Status(const Model&)>& lay,
                                                  int64_t kept_prefix_bytes = 0);

// The exit status of a run that ended: 0, or 128 + the signal that cancelled it.
int status_of(const Generation& generation);

// The file's content, or stdin up to its end for "-".
Result<std::string> read_text(const std::string& path);

// The whole of stdin where it is a pipe or a file, else nothing: a terminal and /dev/null are left alone. A pipe is
// read to its end however long that takes, as every filter does, because an answer to half of a question is worse than
// none. A line says so where it brings nothing for two seconds. Node gives its child processes a socket, whether
// something is written to it or not. A socket that brings neither bytes nor its end within half a second is not read,
// and a line says so.
Result<std::string> piped_text();

}  // namespace llada::cli
