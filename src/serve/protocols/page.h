// Files that are compiled in (cmake/page.cmake): the page that the server shows at `/`, one HTML text that loads
// nothing else, put together from src/serve/page; and openapi.json.
#pragma once
#include <string_view>

namespace llada::serve {

struct Page {
  std::string_view html;
  std::string_view policy;  // its Content-Security-Policy: the digests of its one script and its one style
  std::string_view tag;     // its ETag, in quotes
};

const Page& page();

std::string_view openapi_schemas();

}  // namespace llada::serve
