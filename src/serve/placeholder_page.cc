// Compiled where the page is not there to be embedded.
#include "serve/page.h"

namespace llada::serve {

const Page& page() {
  static constexpr Page kPage = {
      .html = "<!doctype html><title>llada</title><p>llada serve is running; its routes are in /openapi.json.",
      .policy = "default-src 'none'",
      .tag = "\"none\"",
  };
  return kPage;
}

}  // namespace llada::serve
