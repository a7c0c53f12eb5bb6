// wandb-log-copy FROM TO: reads a `.wandb` log and writes its records into a new one.

#include <cstdio>

#include "service/wandb_log/log_file.h"

namespace {

absl::Status Copy(const char* from, const char* to) {
  auto reader = ranklog::wandb_log::LogReader::Open(from);
  if (!reader.ok()) return reader.status();
  auto writer = ranklog::wandb_log::LogWriter::Create(to);
  if (!writer.ok()) return writer.status();
  while (true) {
    const auto record = (*reader)->Next();
    if (!record.ok()) return record.status();
    if (!record->has_value()) return (*writer)->Flush(/*sync=*/false);
    if (const absl::Status status = (*writer)->Append(**record); !status.ok()) return status;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fputs("Usage: wandb-log-copy FROM TO\n", stderr);
    return 2;
  }
  const absl::Status status = Copy(argv[1], argv[2]);
  if (!status.ok()) fprintf(stderr, "wandb-log-copy: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
