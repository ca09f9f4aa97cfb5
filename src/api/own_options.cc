// The options that are none of decoding's: one entry each, with the function that reads its text.
#include <charconv>

#include "api/options.h"
#include "study/devices.h"

namespace llada::api {
namespace {

constexpr const char* kModel = "Model and device";
constexpr const char *kEngine = "Engine", *kScore = "Scoring";

template <class T>
Status read_whole(std::string_view text, int64_t least, int64_t most, T& out) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    return invalid("found '{}', needed a whole number from {} to {}", text, least, most);
  out = static_cast<T>(value);
  return {};
}

constexpr int64_t kMostThreads = 1024, kMostStreams = 1024, kMostRows = int64_t{1} << 20,
                  kMostContext = int64_t{1} << 30, kMostCache = int64_t{1} << 46;

Status set_device(Chosen& c, std::string_view text) {
  if (text.empty()) return invalid("found '', needed a device");
  c.load.device = text;
  c.load.plugin = &study_devices();
  return {};
}
Status set_threads(Chosen& c, std::string_view text) {
  LLADA_TRY_STATUS(read_whole(text, 0, kMostThreads, c.load.threads));
  c.engine.threads = c.load.threads;
  return {};
}
Status set_ctx_size(Chosen& c, std::string_view text) { return read_whole(text, 0, kMostContext, c.load.context); }
Status set_attention(Chosen& c, std::string_view text) {
  if (text != "fast" && text != "exact") return invalid("found '{}', needed fast or exact", text);
  c.load.exact_attention = text == "exact";
  return {};
}
Status set_isa(Chosen& c, std::string_view text) {
  c.load.isa = text;
  return {};
}
Status set_pack_cache(Chosen& c, std::string_view text) {
  if (text.empty()) return invalid("found '', needed off or a folder");
  if (text == "off")
    c.load.pack_cache = {};
  else
    c.load.pack_cache = {PackCache::Use::make, std::string(text)};
  return {};
}
Status set_fit_check(Chosen& c, std::string_view text) {
  if (text != "true" && text != "false") return invalid("found '{}', needed true or false", text);
  c.load.system_root = text == "true" ? "/" : "";
  return {};
}
Status set_streams(Chosen& c, std::string_view text) {
  return read_whole(text, 1, kMostStreams, c.engine.most_running);
}
Status set_row_budget(Chosen& c, std::string_view text) { return read_whole(text, 0, kMostRows, c.engine.row_budget); }
Status set_cache(Chosen& c, std::string_view text) { return read_whole(text, 0, kMostCache, c.cache_bytes); }
Status set_method(Chosen& c, std::string_view text) {
  LLADA_TRY(c.score.method, parse_method(text));
  return {};
}
Status set_draws(Chosen& c, std::string_view text) { return read_whole(text, 1, kMostDraws, c.score.draws); }
Status set_groups(Chosen& c, std::string_view text) { return read_whole(text, 0, kMostRows, c.score.groups); }
Status set_order(Chosen& c, std::string_view text) {
  LLADA_TRY(const auto words, read_words(text));
  if (!words.preset.empty()) return invalid("found '{}', needed options without a preset", text);
  LLADA_TRY(c.score.order, decode::decode_options(words.settings));
  return {};
}
Status set_preset(Chosen& c, std::string_view text) {
  if (text.empty()) return invalid("found '', needed a name or a file");
  c.preset = text;
  return {};
}
Status set_stop(Chosen& c, std::string_view text) {
  if (text.empty()) return invalid("found '', needed text");
  c.stop.emplace_back(text);
  return {};
}
Status set_keep_steps(Chosen& c, std::string_view text) {
  if (text != "true" && text != "false") return invalid("found '{}', needed true or false", text);
  c.keep_steps = text == "true";
  return {};
}

constexpr OwnOption kOwn[] = {
    {LLADA_FOR_MODEL, "device", "NAME", "cpu, sim:PROFILE, hexagon or cuda, with options", "cpu", "where to compute",
     kModel, set_device},
    {LLADA_FOR_MODEL | LLADA_FOR_ENGINE, "threads", "N", "a whole number from 0 to 1024", "0",
     "0: of a model one per physical core, of an engine as many as its model", kModel, set_threads},
    {LLADA_FOR_MODEL, "ctx_size", "N", "a whole number from 0 to 1073741824", "0",
     "most positions of a request; 0: what the model was trained for", kModel, set_ctx_size},
    {LLADA_FOR_MODEL, "attention", "KIND", "fast or exact", "fast",
     "of rows that see 1024 positions or more: fast reads 8-bit copies of keys and values, exact the stored ones",
     kModel, set_attention},
    {LLADA_FOR_MODEL, "isa", "NAME", "a set that `llada devices` lists", "", "forces an instruction set", kModel,
     set_isa},
    {LLADA_FOR_MODEL, "pack_cache", "WHERE", "off or a folder", "off",
     "a folder of packed weights, which are used, and made where they are missing: processes then share one copy",
     kModel, set_pack_cache},
    {LLADA_FOR_MODEL, "fit_check", "", "true or false", "true",
     "refuses a model that does not fit into the memory that is left, before its weights are read", kModel,
     set_fit_check},
    {LLADA_FOR_ENGINE, "streams", "N", "a whole number from 1 to 1024", "1",
     "requests that share forwards; the others wait in the order in which they came", kEngine, set_streams},
    {LLADA_FOR_ENGINE, "row_budget", "N", "a whole number from 0 to 1048576", "0",
     "rows of a shared forward; 0: learned from the forwards that are run", kEngine, set_row_budget},
    {LLADA_FOR_ENGINE, "cache", "BYTES", "a whole number from 0", "0",
     "of the K/V of prompts that later requests begin with too, of a block-causal model", kEngine, set_cache},
    {LLADA_FOR_SCORE, "method", "METHOD", "mc, chain, exact, duel or pseudo", "chain",
     "what the log-probability of a continuation is (llada score --help)", kScore, set_method},
    {LLADA_FOR_SCORE, "draws", "N", "a whole number from 1 to 65536", "128", "of method mc, whose seed is `seed`",
     kScore, set_draws},
    {LLADA_FOR_SCORE, "groups", "N", "a whole number from 0 to 1048576", "0",
     "of method pseudo: forwards that share the tokens; 0: one for each", kScore, set_groups},
    {LLADA_FOR_SCORE, "order", "OPTIONS", "decoding options as on the command line", "",
     "of method duel: the order in which decoding would commit", kScore, set_order},
    {LLADA_FOR_REQUEST, "preset", "NAME", "exact, balanced, fast, long, npu, llada2, llada2.1, or a llada tune file",
     "", "decoding options under a name; options beside it replace its own", "Presets", set_preset},
    {LLADA_FOR_REQUEST, "stop", "TEXT", "any text but an empty one", "",
     "ends the answer before this text; each time that it is set it is one more", "Ending", set_stop},
    {LLADA_FOR_REQUEST, "keep_steps", "", "true or false", "false", "keeps every step for llada_request_next()",
     "Steps", set_keep_steps},
};

}  // namespace

std::span<const OwnOption> own_options() { return kOwn; }

}  // namespace llada::api
