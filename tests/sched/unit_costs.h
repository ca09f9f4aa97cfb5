// Costs of experts for plans that are worked by hand.
#pragma once

namespace llada {

// Times in whole units: a host expert 2 + rows, an accelerator expert 1, a move 3 x 2 = 6.
inline ExpertCosts unit_costs() {
  ExpertCosts c;
  c.host_expert_s = 2;
  c.host_bytes_per_s = 1e9;
  c.host_row_s = 1;
  c.device_expert_s = 1;
  c.device_bytes_per_s = 1e9;
  c.device_row_s = 0;
  c.piece_bytes = {2, 2, 2};
  c.link_bytes_per_s = 1;
  return c;
}

}  // namespace llada
