// Many prompts at once in C++: many MODEL < PROMPTS. One prompt a line in, one answer a line out, four at a time.
#include <iostream>
#include <llada/llada.hpp>
#include <string>
#include <vector>

int main(int argc, char** argv) try {
  if (argc != 2) return std::cerr << "usage: many MODEL < PROMPTS\n", 2;
  const llada::cxx::Model model(argv[1]);
  const llada::cxx::Engine engine(model, {{"streams", "4"}});

  std::vector<llada::cxx::Request> requests;
  for (std::string prompt; std::getline(std::cin, prompt);)
    requests.push_back(engine.chat({{"user", prompt}}, {{"gen_length", "128"}, {"threshold", "0.9"}}));
  for (const auto& request : requests) {
    const llada::cxx::Result result = request.result();  // waits for it; the others go on
    std::cout << result.view() << "\n";
    std::cerr << result.content_tokens << " tokens in " << result.forwards << " forwards\n";
  }
} catch (const llada::cxx::Error& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
