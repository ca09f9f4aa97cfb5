#include "text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/pretokenizer_regexes.h"
#include "text/regex_syntax.h"
#include "text/utf8.h"

namespace llada {

// Not in the unnamed namespace: Pattern and State, whose fields these are, have external linkage.
namespace pcre {
template <class T, void (*Free)(T*)>
struct Deleter {
  void operator()(T* pointer) const { Free(pointer); }
};
using Code = std::unique_ptr<pcre2_code, Deleter<pcre2_code, pcre2_code_free>>;
using CompileContext =
    std::unique_ptr<pcre2_compile_context, Deleter<pcre2_compile_context, pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context, pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data, pcre2_match_data_free>>;
}  // namespace pcre

namespace {

constexpr size_t kMaxRegex = 16384;       // bytes of pattern text
constexpr size_t kMaxRegexes = 16;        // patterns in one tokenizer
constexpr uint32_t kMaxNesting = 40;      // groups inside groups
constexpr size_t kWindow = 32768;         // bytes that an unknown regex sees at once
constexpr uint32_t kMatchLimit = 100000;  // backtracking steps per match of an unknown regex: three per byte of window
constexpr uint32_t kHeapLimit = 65536;    // KiB

constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;

size_t char_length(std::string_view text) { return static_cast<size_t>(utf8_unit(text).length); }

}  // namespace

struct PreTokenizer::Pattern {
  pcre::Code code;
  bool linear = false;
};

struct PreTokenizer::Scratch::State {
  std::vector<pcre::MatchData> data;  // one per pattern
  pcre::MatchContext limited;
  pcre::MatchContext unlimited;
  std::vector<std::string_view> pieces, next;
};

PreTokenizer::Scratch::Scratch(const PreTokenizer& pre_tokenizer) : state_(std::make_unique<State>()) {
  state_->limited.reset(pcre2_match_context_create(nullptr));
  state_->unlimited.reset(pcre2_match_context_create(nullptr));
  if (state_->limited) {
    pcre2_set_match_limit(state_->limited.get(), kMatchLimit);
    pcre2_set_heap_limit(state_->limited.get(), kHeapLimit);
  }
  if (state_->unlimited) {
    // Backtracking through one run of white space is a step per byte.
    pcre2_set_match_limit(state_->unlimited.get(), UINT32_MAX);
    pcre2_set_heap_limit(state_->unlimited.get(), kHeapLimit);
  }
  for (const auto& pattern : pre_tokenizer.patterns_)
    state_->data.push_back(pcre::MatchData(pcre2_match_data_create_from_pattern(pattern->code.get(), nullptr)));
}
PreTokenizer::Scratch::Scratch(Scratch&&) noexcept = default;
PreTokenizer::Scratch::~Scratch() = default;

Result<PreTokenizer> PreTokenizer::create(std::span<const std::string> regexes) {
  if (regexes.size() > kMaxRegexes)
    return invalid("{} pre-tokenizer regexes, needed at most {}", regexes.size(), kMaxRegexes);
  pcre::CompileContext context(pcre2_compile_context_create(nullptr));
  if (!context) return failed("out of memory for the pre-tokenizer");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), kMaxNesting);

  PreTokenizer result;
  for (const std::string& regex : regexes) {
    if (regex.size() > kMaxRegex)
      return invalid("the pre-tokenizer regex {} has {} bytes, needed at most {}", in_quotes(regex), regex.size(),
                     kMaxRegex);
    LLADA_TRY(const std::string translated, translate_regex(regex));
    int code = 0;
    PCRE2_SIZE offset = 0;
    auto pattern = std::make_shared<Pattern>();
    pattern->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(), kOptions,
                                      &code, &offset, context.get()));
    if (!pattern->code) {
      PCRE2_UCHAR message[160] = {};
      pcre2_get_error_message(code, message, sizeof message);
      return invalid("the pre-tokenizer regex {} does not compile: {}", in_quotes(regex),
                     reinterpret_cast<const char*>(message));
    }
    pattern->linear = is_linear_regex(regex);
    if (pattern->linear) pcre2_jit_compile(pattern->code.get(), PCRE2_JIT_COMPLETE);  // without it, interpreted
    result.patterns_.push_back(std::move(pattern));
  }
  return result;
}

namespace {

// Finds matches the way the published tokenizers do: left to right, an empty match only where the last one did not end.
// Calls emit(begin, end) for each piece of `text`, matched or between matches, empty ones included. Returns how far it
// got: text.size(), or less when !last and the rest needs more text.
template <class Emit>
size_t cut(const pcre2_code* code, pcre2_match_data* data, pcre2_match_context* context, std::string_view text,
           bool last, Emit emit) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const size_t trusted = last ? text.size() : text.size() - text.size() / 4;
  size_t done = 0, from = 0;
  size_t last_match_end = SIZE_MAX;
  while (from <= text.size()) {
    const int found = pcre2_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, data, context);
    if (found < 0) {
      if (!last && found == PCRE2_ERROR_NOMATCH && done > 0) return done;
      break;  // no match, or a limit: the rest is one piece
    }
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data);
    const size_t begin = ends[0], end = ends[1];
    if (end < begin || begin < from) break;  // cannot happen without \K, which is refused
    if (end == begin && end == last_match_end) {
      if (from >= text.size()) break;
      from += char_length(text.substr(from));
      continue;
    }
    if (end > trusted && done > 0) return done;
    emit(done, begin);
    emit(begin, end);
    done = from = last_match_end = end;
  }
  emit(done, text.size());
  return text.size();
}

// The largest end of a window at `begin` that does not cut a character.
size_t window_end(std::string_view text, size_t begin) {
  if (text.size() - begin <= kWindow) return text.size();
  size_t end = begin + kWindow;
  while ((static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  return end;
}

}  // namespace

const std::vector<std::string_view>& PreTokenizer::split(std::string_view text, Scratch& scratch) const {
  Scratch::State& state = *scratch.state_;
  state.pieces.assign(1, text);
  for (size_t i = 0; i < patterns_.size(); ++i) {
    const Pattern& pattern = *patterns_[i];
    state.next.clear();
    for (const std::string_view piece : state.pieces) {
      size_t begin = 0;
      while (begin < piece.size()) {
        const size_t end = pattern.linear ? piece.size() : window_end(piece, begin);
        const std::string_view window = piece.substr(begin, end - begin);
        const auto emit = [&](size_t from, size_t to) {
          if (to > from) state.next.push_back(window.substr(from, to - from));
        };
        pcre::MatchContext& context = pattern.linear ? state.unlimited : state.limited;
        begin += cut(pattern.code.get(), state.data[i].get(), context.get(), window, end == piece.size(), emit);
      }
    }
    state.pieces.swap(state.next);
  }
  return state.pieces;
}

}  // namespace llada
