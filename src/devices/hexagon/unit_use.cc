#include "devices/hexagon/unit_use.h"

#include <utility>

#include "devices/hexagon/session.h"

namespace llada::hexagon {

static_assert(WIRE_UNIT_MATRIX == 1);

Status UnitUse::take(const HexagonOptions& options, const Library& library,
                     std::span<const std::shared_ptr<Session>> sessions) {
  release();
  const std::lock_guard lock(grant_->mutex);  // one device after the other asks
  if (options.unit == HexagonUnit::vector || grant_->ended) return {};
  records_.emplace(options.cache, library, *sessions[0]);
  if (const std::string why = records_->refusal(); !why.empty()) {
    if (options.unit == HexagonUnit::matrix)
      return invalid("hexagon: unit=matrix: the matrix unit is not used: {}", why);
    if (options.warn && records_->read().state == UnitRecord::State::began)
      options.warn(fmt::format("hexagon: the matrix unit is not used: {}", why));
    return {};
  }
  Session::Votes votes;
  bool all = true;
  for (const auto& session : sessions) {
    LLADA_TRY(votes, session->vote_unit(true));
    all = session->unit_bytes() > 0;
    if (!all) break;
  }
  taken_ = all;
  grant_->holders += all ? 1 : 0;
  if (all) return {};
  for (const auto& session : sessions) LLADA_TRY_STATUS(session->vote_unit(false));
  if (grant_->holders > 0 && grant_->used)
    return invalid(
        "hexagon: the matrix unit was refused: {}; another device computes with it, and their answers would differ: "
        "needed unit=vector, or one device",
        describe_refusal(votes));
  grant_->ended = true;
  if (options.warn)
    options.warn(fmt::format("hexagon: the matrix unit was refused: {}; products are the vector unit's",
                             describe_refusal(votes)));
  return {};
}

void UnitUse::release() {
  const std::lock_guard lock(grant_->mutex);
  if (std::exchange(taken_, false)) --grant_->holders;
}

uint32_t UnitUse::units() const {
  const std::lock_guard lock(grant_->mutex);
  return taken_ && !grant_->ended ? 1 : 0;
}

uint32_t UnitUse::begin_batch() {
  const std::lock_guard lock(grant_->mutex);
  if (!taken_ || grant_->ended) return 0;
  grant_->used = true;
  return 1;
}

void UnitUse::give_up(const std::string& why) {
  {
    const std::lock_guard lock(grant_->mutex);
    if (!taken_) return;
    grant_->ended = true;
  }
  release();
  // Where it cannot be kept, a later run finds out for itself.
  static_cast<void>(records_->write({UnitRecord::State::failed, why}));
}

void UnitUse::lose(const std::string& why) {
  give_up(why);
  lost_ = fmt::format("hexagon: {}; products are the vector unit's from now on", why);
}

std::string UnitUse::lost() { return std::exchange(lost_, {}); }

}  // namespace llada::hexagon
