// A mapped file can shrink, or its disk fail, while the program reads it. The system then raises SIGBUS. This turns it
// into an ordinary failure: one line that names the file, and exit status 1.
#pragma once

namespace llada::cli {

// For the whole process, once. Files being written are not harmed: they have no name yet (base/file.h).
void report_mapping_faults();

}  // namespace llada::cli
