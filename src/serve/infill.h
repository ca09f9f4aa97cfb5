// Requests to fill gaps, in the forms that editors and others have for it.
#pragma once
#include "serve/ask.h"

namespace llada::serve {

// {prompt, suffix, max_tokens, ...}: the gap between the two has max_tokens tokens.
Answered<Ask> read_fim(Service& service, Body body, Shape shape);

// {text: "... <mask:4> ..."}, gaps anywhere; or llama-server's {input_prefix, input_suffix, input_extra, prompt,
// n_predict}, a gap at the cursor.
Answered<Ask> read_infill(Service& service, Body body);

}  // namespace llada::serve
