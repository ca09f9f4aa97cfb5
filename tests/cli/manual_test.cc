// Manual pages and completions: every option of a command is in all of them, and the shells' special characters in help
// texts do no harm. What a shell makes of the scripts: tools/test_install.sh.
#include "cli/manual.h"

#include <gmock/gmock.h>

#include "cli/help.h"
#include "lab/commands.h"

namespace llada::cli {
namespace {

using testing::HasSubstr;

constexpr Command kTwo[] = {{"run", "answer a prompt", setup_run}, {"infill", "fill the gaps of a text", setup_infill}};
constexpr Program kPair{.commands = kTwo};

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

TEST(Manual, EveryOptionIsEverywhere) {
  for (const Command& command : kTwo) {
    CLI::App app;
    const Work work = command.setup(app);
    const std::string page = replaced(*manual_page(kPair, command.name, "0.1.0"), "\\-", "-");
    const std::string bash = *completion(kPair, "bash"), zsh = *completion(kPair, "zsh"),
                      fish = *completion(kPair, "fish");
    int names = 0;
    for (const OptionGroup& group : option_groups(app))
      for (const CLI::Option* option : group.options)
        for (const std::string& name : option->get_lnames()) {
          ++names;
          EXPECT_THAT(page, HasSubstr("--" + name)) << name;
          EXPECT_THAT(bash, HasSubstr(" --" + name + " ")) << name;
          EXPECT_THAT(zsh, HasSubstr("'*--" + name + "[")) << name;
          EXPECT_THAT(fish, HasSubstr(fmt::format("from {}' ", command.name)));
          EXPECT_THAT(fish, HasSubstr(" -l " + name + " ")) << name;
        }
    EXPECT_GT(names, 40);
  }
}

TEST(Manual, ChoicesAreOffered) {
  EXPECT_THAT(*completion(kPair, "bash"), HasSubstr("--kv) COMPREPLY=($(compgen -W 'none prefix dual block frozen'"));
  EXPECT_THAT(*completion(kPair, "zsh"), HasSubstr(":(none prefix dual block frozen)'"));
  EXPECT_THAT(*completion(kPair, "fish"), HasSubstr(" -l kv -x -a 'none prefix dual block frozen'"));
}

// What has no list of its own in decode/fields.h, and names that only known_words() takes.
TEST(Manual, OtherChoicesAreOfferedToo) {
  constexpr Command kThree[] = {{"run", "", setup_run}, {"convert", "", setup_convert}, {"synth", "", setup_synth}};
  const std::string bash = *completion({.commands = kThree}, "bash"), zsh = *completion({.commands = kThree}, "zsh"),
                    fish = *completion({.commands = kThree}, "fish");
  EXPECT_THAT(bash, HasSubstr("*\\ --preset-decode) COMPREPLY=($(compgen -W 'exact balanced fast llada2 llada2.1 "
                              "llada2.2 sdar rnd1 fast-dllm-v2 wedlm nemotron nemotron-spec' -- "
                              "\"$word\") $(compgen -f -- \"$word\"))"))
      << "or a file";
  EXPECT_THAT(bash, HasSubstr("convert\\ --type) COMPREPLY=($(compgen -W 'f32 f16 bf16 q8_0 q6_k q5_k_m q5_k_s q5_1 "));
  EXPECT_THAT(bash, HasSubstr("synth\\ --type) COMPREPLY=($(compgen -W 'f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q4_k "));
  EXPECT_THAT(bash, HasSubstr(" -hf "));
  EXPECT_THAT(zsh, HasSubstr("'*-hf["));
  EXPECT_THAT(fish, HasSubstr(" -o hf "));
  EXPECT_THAT(fish, HasSubstr(" -l device -x -a 'cpu cuda hexagon'"));
}

// Single quotes inside single quotes would end them.
TEST(Manual, HelpTextsAreQuoted) {
  for (const char* shell : {"zsh", "fish"}) {
    const std::string script = *completion(kPair, shell);
    int64_t quotes = 0;
    for (size_t i = 0; i < script.size(); ++i) quotes += script[i] == '\'' && (i == 0 || script[i - 1] != '\\');
    EXPECT_EQ(quotes % 2, 0) << shell;
  }
  const std::string page = *manual_page(kPair, "run", "0.1.0");
  EXPECT_TRUE(page.starts_with(".TH \"LLADA\\-RUN\" 1 "));
  EXPECT_THAT(page, Not(HasSubstr("\n'"))) << "no line is a request by chance";
}

// A second program has pages and scripts of its own name, and its page names llada's.
TEST(Manual, OfAnotherProgram) {
  const Program study{.name = "llada-study", .about = "studies", .commands = kTwo};
  const std::string page = *manual_page(study, "", "0.1.0");
  EXPECT_TRUE(page.starts_with(".TH \"LLADA\\-STUDY\" 1 ")) << page;
  EXPECT_TRUE(
      page.ends_with(".SH SEE ALSO\n.BR llada\\-study\\-run (1),\n.BR llada\\-study\\-infill (1),\n.BR llada (1)\n"))
      << page;
  EXPECT_THAT(page, Not(HasSubstr("llada MODEL")));
  EXPECT_THAT(*manual_page(study, "run", "0.1.0"), HasSubstr(".B llada\\-study run\n"));
  EXPECT_TRUE(completion(study, "bash")->ends_with("complete -o filenames -F _llada_study llada-study\n"));
  EXPECT_TRUE(completion(study, "zsh")->starts_with("#compdef llada-study\n_llada_study() {\n"));
  EXPECT_THAT(*completion(study, "fish"), HasSubstr("\ncomplete -c llada-study -n __fish_use_subcommand -a run "));
}

TEST(Manual, WhatThereIsNot) {
  EXPECT_EQ(completion(kPair, "tcsh").error().message, "--completion: found 'tcsh', needed bash, zsh or fish");
  EXPECT_EQ(manual_page(kPair, "walk", "0.1.0").error().message, "--man: found 'walk', needed a command or nothing");
}

}  // namespace
}  // namespace llada::cli
