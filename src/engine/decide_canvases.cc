#include "engine/decide_canvases.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace llada {
namespace {

// Where a canvas ends whose text ends at `end`: with the block of its slot, behind which a block-causal model sees
// nothing; with the last of its canvases of random tokens.
int64_t canvas_end(int64_t slot, int64_t prompt_tokens, int64_t end, const decode::SpecialIds& ids) {
  if (ids.uniform.length > 0) return prompt_tokens + ids.uniform.holding(end - prompt_tokens);
  return ids.attention_block > 0 ? ids.behind(prompt_tokens).block_end(slot) : end;
}

// The text behind the answer on a canvas that ends at `end`.
void finish_tail(std::vector<int32_t>& tail, int64_t prompt_tokens, int64_t end, const decode::SpecialIds& ids) {
  tail.resize(static_cast<size_t>(end - prompt_tokens), ids.eos >= 0 ? ids.eos : ids.mask);
}

}  // namespace

int32_t end_token(const decode::SpecialIds& ids) { return ids.eot >= 0 ? ids.eot : ids.eos; }

Result<LabelTree> label_tree(std::span<const std::vector<int32_t>> labels, int32_t end) {
  LabelTree tree;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i].empty()) return invalid("label {}: found no tokens, needed one or more", i + 1);
    tree.width = std::max<int64_t>(tree.width, std::ssize(labels[i]));
  }
  std::map<std::vector<int32_t>, size_t> whole;  // sequences that are labels already
  for (size_t i = 0; i < labels.size(); ++i)
    if (const auto [same, added] = whole.try_emplace(labels[i], i); !added)
      return invalid("labels {} and {}: found the same tokens, needed different ones", same->second + 1, i + 1);
  std::map<std::vector<int32_t>, size_t> nodes;
  const auto place = [&](const std::vector<int32_t>& before, int32_t token) {
    const auto [found, added] = nodes.try_emplace(before, tree.nodes.size());
    if (added) tree.nodes.push_back({before, {}});
    std::vector<int32_t>& tokens = tree.nodes[found->second].tokens;
    const auto at = static_cast<size_t>(std::ranges::find(tokens, token) - tokens.begin());
    if (at == tokens.size()) tokens.push_back(token);
    return LabelTree::Place{found->second, at};
  };
  for (const std::vector<int32_t>& label : labels) {
    std::vector<LabelTree::Place>& places = tree.labels.emplace_back();
    for (size_t t = 0; t < label.size(); ++t)
      places.push_back(place({label.begin(), label.begin() + static_cast<std::ptrdiff_t>(t)}, label[t]));
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    if (!nodes.contains(labels[i])) continue;  // nothing goes on behind it
    if (end < 0) return invalid("label {}: found another that begins with it, needed a model with an end token", i + 1);
    tree.labels[i].push_back(place(labels[i], end));
  }
  return tree;
}

std::vector<DecideCanvas> question_canvases(size_t reading, const LabelTree& tree, int64_t prompt_tokens,
                                            const decode::SpecialIds& ids) {
  std::vector<DecideCanvas> canvases;
  for (size_t n = 0; n < tree.nodes.size(); ++n) {
    DecideCanvas canvas{.prompt = reading, .tail = tree.nodes[n].before, .slots = {}};
    const int64_t slot = prompt_tokens + std::ssize(canvas.tail);
    canvas.slots.push_back({reading, n, slot});
    canvas.tail.resize(static_cast<size_t>(tree.width), ids.mask);
    if (end_token(ids) >= 0) canvas.tail.push_back(end_token(ids));
    finish_tail(canvas.tail, prompt_tokens,
                canvas_end(slot, prompt_tokens, prompt_tokens + std::ssize(canvas.tail), ids), ids);
    canvases.push_back(std::move(canvas));
  }
  return canvases;
}

std::vector<DecideCanvas> joint_canvases(std::span<const JointLine> lines, std::span<const int32_t> between,
                                         int64_t prompt_tokens, const decode::SpecialIds& ids) {
  std::vector<DecideCanvas> canvases;
  const decode::SpecialIds behind = ids.behind(prompt_tokens);
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::vector<int32_t>& text = lines[i].text;
    const auto next = [&] { return prompt_tokens + std::ssize(canvases.back().tail) + std::ssize(text); };
    const auto has_room = [&] {
      const int64_t slot = next() + std::ssize(between);
      if (const int64_t length = ids.uniform.length; length > 0)
        return slot + lines[i].tree->width < prompt_tokens + length;  // and for an end token
      return ids.attention_block == 0 || slot < behind.block_end(canvases.back().slots.front().position);
    };
    const bool goes_on = !canvases.empty() && has_room();
    if (!goes_on) canvases.push_back({.prompt = 0, .tail = {}, .slots = {}});
    std::vector<int32_t>& tail = canvases.back().tail;
    if (goes_on) tail.insert(tail.end(), between.begin(), between.end());
    canvases.back().slots.push_back({i, 0, next()});
    tail.insert(tail.end(), text.begin(), text.end());
    tail.insert(tail.end(), static_cast<size_t>(lines[i].tree->width), ids.mask);
  }
  std::vector<DecideCanvas> further;
  for (DecideCanvas& canvas : canvases) {
    if (end_token(ids) >= 0) canvas.tail.push_back(end_token(ids));
    const int64_t end = prompt_tokens + std::ssize(canvas.tail);
    for (const DecideSlot& slot : canvas.slots)
      for (size_t n = 1; n < lines[slot.reading].tree->nodes.size(); ++n) {
        const std::vector<int32_t>& before = lines[slot.reading].tree->nodes[n].before;
        DecideCanvas& more = further.emplace_back(canvas);
        std::ranges::copy(before, more.tail.begin() + (slot.position - prompt_tokens));
        more.slots = {{slot.reading, n, slot.position + std::ssize(before)}};
        finish_tail(more.tail, prompt_tokens, canvas_end(more.slots.front().position, prompt_tokens, end, ids), ids);
      }
    finish_tail(canvas.tail, prompt_tokens, canvas_end(canvas.slots.back().position, prompt_tokens, end, ids), ids);
  }
  canvases.insert(canvases.end(), std::make_move_iterator(further.begin()), std::make_move_iterator(further.end()));
  return canvases;
}

int64_t shared_prefix(std::span<const std::vector<int32_t>> prompts, std::span<const DecideCanvas> canvases,
                      const decode::SpecialIds& ids) {
  if (prompts.empty()) return 0;
  const decode::SpecialIds behind = ids.behind(std::ssize(prompts.front()));
  const auto counted_alike = [&](const std::vector<int32_t>& prompt) {
    return ids.kind().keeps_finished() || ids.behind(std::ssize(prompt)).block_origin == behind.block_origin;
  };
  if (!std::ranges::all_of(prompts, counted_alike)) return 0;
  int64_t same = std::ssize(prompts.front());
  for (const std::vector<int32_t>& prompt : prompts)
    same = std::min<int64_t>(same, std::ranges::mismatch(prompts.front(), prompt).in1 - prompts.front().begin());
  for (const DecideCanvas& canvas : canvases)
    for (const DecideSlot& slot : canvas.slots) same = std::min<int64_t>(same, ids.row_of(slot.position));
  return behind.final_before(same);
}

}  // namespace llada
