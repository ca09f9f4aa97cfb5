#include "eval/reference.h"

#include <charconv>

#include "base/file.h"
#include "base/fnv.h"
#include "base/os.h"
#include "json/fields.h"
#include "json/lines.h"
#include "json/parse.h"
#include "text/text_file.h"

namespace llada::eval {
namespace {

constexpr int64_t kVersion = 1;
constexpr int64_t kMost = int64_t{1} << 40;

Result<Answer> read_answer(Fields& fields) {
  Answer answer;
  Score& s = answer.score;
  s.n = 1;
  LLADA_TRY(answer.tokens, fields.integers("tokens", 0, int64_t{1} << 30));
  for (const auto& [name, target] : {std::pair{"nfe", &s.nfe},
                                     {"rows", &s.rows},
                                     {"committed", &s.committed},
                                     {"content_tokens", &s.content_tokens}}) {
    LLADA_TRY(*target, fields.integer(name, 0, kMost));
  }
  LLADA_TRY(s.seconds, fields.real("seconds", 0, 1e12));
  LLADA_TRY(s.cpu_seconds, fields.real("cpu_seconds", 0, 1e12));
  LLADA_TRY(answer.likelihood_groups, fields.integer("likelihood_groups", -1, kMost));
  LLADA_TRY(s.likelihood.log_probability, fields.real("log_probability", -1e15, 0));
  LLADA_TRY(s.likelihood.tokens, fields.integer("scored_tokens", 0, kMost));
  return answer;
}

Result<uint64_t> read_hash(Fields& fields, const char* name) {
  LLADA_TRY(const std::string text, fields.text(name));
  uint64_t hash = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), hash, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != 16)
    return fields.wrong(name, text, "16 hexadecimal digits");
  return hash;
}

}  // namespace

decode::DecodeOptions reference_options(const decode::DecodeOptions& like) {
  decode::DecodeOptions options;
  // A fixed canvas would cut texts that the strategies may write.
  options.gen_length = like.gen_length, options.auto_length = like.auto_length;
  options.block_length = like.block_length;
  options.cfg_scale = like.cfg_scale;
  options.logits_eos_inf = like.logits_eos_inf;
  options.confidence_eos_eot_inf = like.confidence_eos_eot_inf;
  return options;
}

decode::DecodeOptions reference_options(std::span<const StrategyUnderTest> strategies) {
  decode::DecodeOptions options = reference_options(strategies.front().options);
  for (const StrategyUnderTest& strategy : strategies) {
    options.auto_length |= strategy.options.auto_length;
    options.gen_length = std::max(options.gen_length, strategy.options.gen_length);
  }
  return options;
}

std::string reference_text(const decode::DecodeOptions& o) {
  std::string text =
      fmt::format("--gen-length {}{} --block-length {}", o.auto_length ? "auto:" : "", o.gen_length, o.block_length);
  if (o.cfg_scale > 0) text += fmt::format(" --cfg-scale {}", o.cfg_scale);
  if (o.logits_eos_inf) text += " --logits-eos-inf";
  if (o.confidence_eos_eot_inf) text += " --confidence-eos-eot-inf";
  return text;
}

uint64_t prompt_hash(std::span<const int32_t> prompt) {
  Fnv fnv;
  for (const int32_t id : prompt) fnv.add(int64_t{id});
  return fnv.hash();
}

std::string model_fingerprint(const Model& model) {
  constexpr int64_t kSamples = 64;
  Fnv fnv;
  for (const ModelFile::Entry& entry : model.file().tensors()) {
    fnv.add(entry.name);
    fnv.add(static_cast<int64_t>(entry.view.type));
    for (const int64_t dim : entry.view.shape.dims) fnv.add(dim);
    const auto stored = model.file().stored(entry.view);
    const int64_t bytes = std::ssize(stored);
    for (int64_t i = 0; i < kSamples && i < bytes; ++i)
      fnv.add(stored.data() + bytes / std::min(kSamples, bytes) * i, 1);
  }
  return fmt::format("{:016x}", fnv.hash());
}

const Answer* ReferenceStore::find(uint64_t prompt) const {
  const auto found = answers_.find(prompt);
  return found == answers_.end() ? nullptr : &found->second;
}

void ReferenceStore::put(uint64_t prompt, Answer answer) {
  answers_[prompt] = std::move(answer);
  changed_ = true;
}

Result<ReferenceStore> ReferenceStore::parse(std::string_view text, const std::string& source, Key key) {
  ReferenceStore store({}, std::move(key));
  bool headed = false;
  const auto visit = [&](std::string_view row, std::string where) -> Status {
    LLADA_TRY(auto fields, Fields::parse(row, where));
    if (!headed) {
      headed = true;
      LLADA_TRY_STATUS(fields.head("llada-reference", kVersion));
      for (const auto& [name, needed] :
           {std::pair{"model", &store.key_.model}, {"device", &store.key_.device}, {"options", &store.key_.options}}) {
        LLADA_TRY_STATUS(fields.same(name, *needed, "made", "this run"));
      }
      return fields.finish();
    }
    LLADA_TRY(const uint64_t prompt, read_hash(fields, "prompt"));
    LLADA_TRY(auto answer, read_answer(fields));
    if (!store.answers_.emplace(prompt, std::move(answer)).second)
      return invalid("{}: the prompt is there twice", where);
    return fields.finish();
  };
  LLADA_TRY_STATUS(for_each_json_line(text, source, visit));
  if (!headed) return invalid("{}: empty, needed a reference file", source);
  return store;
}

std::string ReferenceStore::text() const {
  std::string out = json_line({{"format", "llada-reference"},
                               {"version", kVersion},
                               {"model", key_.model},
                               {"device", key_.device},
                               {"options", key_.options}});
  for (const auto& [prompt, answer] : answers_) {
    const Score& s = answer.score;
    out += json_line({{"prompt", fmt::format("{:016x}", prompt)},
                      {"tokens", answer.tokens},
                      {"nfe", s.nfe},
                      {"rows", s.rows},
                      {"committed", s.committed},
                      {"content_tokens", s.content_tokens},
                      {"seconds", s.seconds},
                      {"cpu_seconds", s.cpu_seconds},
                      {"likelihood_groups", answer.likelihood_groups},
                      {"log_probability", s.likelihood.log_probability},
                      {"scored_tokens", s.likelihood.tokens}});
  }
  return out;
}

Result<ReferenceStore> ReferenceStore::open(const std::string& path, Key key) {
  if (path.empty() || !os::exists(path)) return ReferenceStore(path, std::move(key));
  LLADA_TRY(const std::string text, read_text_file(path));
  LLADA_TRY(auto store, parse(text, path, std::move(key)));
  store.path_ = path;
  return store;
}

Status ReferenceStore::save() const { return path_.empty() || !changed_ ? Status() : write_file(path_, text()); }

}  // namespace llada::eval
