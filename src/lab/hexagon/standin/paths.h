// Where the stand-in finds the programs that it runs, and the parts of a module's address.
#pragma once
#include <string>

namespace llada::standin {

// Empty: it is not there.
std::string find_emulator();
std::string find_module(const std::string& name);

// "file:///libNAME.so?SYMBOL&_modver=1.0&_dom=cdsp[&_session=N]"
bool split_uri(const std::string& uri, std::string& module, std::string& symbol, int& session);

}  // namespace llada::standin
