// Input: a letter for the kind of form, then its text. What is read becomes an automaton over bytes, and over a small
// vocabulary; the shortest answer of the latter must fit the former, and so must the best one for some logits.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "forms/form.h"
#include "forms/solve.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llada::forms;
  if (size == 0 || size > 4096) return 0;
  const Form form{static_cast<FormKind>(data[0] % 5), std::string(reinterpret_cast<const char*>(data) + 1, size - 1)};
  const auto automaton = automaton_of(form);
  if (!automaton) {
    if (automaton.error().message.find('\n') != std::string::npos) std::abort();
    return 0;
  }
  static const std::vector<std::string> kTexts = [] {
    std::vector<std::string> texts = {"", "\": \"", "\", \"", "true", "{\"", "12", "ab", "\xc3\xa9", "\xa9 \xc3"};
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    return texts;
  }();
  static const Vocabulary kVocabulary(std::vector<std::string_view>(kTexts.begin(), kTexts.end()));
  auto lifted = TokenForm::create(*automaton, kVocabulary, {{0}, 0});
  if (!lifted) std::abort();  // the vocabulary has every byte
  const auto tokens = std::make_shared<const TokenForm>(*std::move(lifted));
  const int64_t least = tokens->least(tokens->start());
  if (least > 64) return 0;
  Solver solver(tokens, false);
  Track track;
  std::vector<Slot> slots(static_cast<size_t>(least));
  std::string text;
  for (Slot& slot : slots) {
    for (int32_t t = 0; slot.token < 0; ++t) {
      slot.token = t;
      if (t >= static_cast<int32_t>(kTexts.size())) std::abort();
      if (!solver.fits(slots, track)) slot.token = -1;
    }
    text += kTexts[static_cast<size_t>(slot.token)];
  }
  if (!automaton->fits(text)) std::abort();

  // The best sequence for logits made of the input, on two positions more.
  std::vector<float> logits(kTexts.size());
  for (size_t t = 0; t < logits.size(); ++t) logits[t] = static_cast<float>(data[t * 7 % size]) / 16;
  llada::RowReader reader({&tokens->classes()}, 0);
  reader.read_all(logits);
  const llada::RowScores row = reader.take();
  const std::vector<Slot> open(static_cast<size_t>(least) + 2, {-1, &row});
  const std::vector<Chosen> path = solver.solve(open, track);
  if (path.size() != open.size()) std::abort();
  text.clear();
  for (const Chosen& chosen : path) text += kTexts[static_cast<size_t>(chosen.token)];
  if (!automaton->fits(text)) std::abort();
  return 0;
}
