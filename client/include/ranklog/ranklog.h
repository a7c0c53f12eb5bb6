// Ranklog: the experiment log of a distributed training job.
//
//   ranklog::Settings settings = ranklog::Settings::FromEnvironment();
//   settings.project = "gpt";
//   ranklog::Run run = ranklog::Init(settings);
//   run.Log({{"train/loss", loss}, {"lr", lr}}, step);
//   run.Finish(0);
//
// Nothing here throws, prints, installs a signal handler or fails the training.

#ifndef RANKLOG_RANKLOG_H_
#define RANKLOG_RANKLOG_H_

#include "ranklog/run.h"       // IWYU pragma: export
#include "ranklog/settings.h"  // IWYU pragma: export
#include "ranklog/value.h"     // IWYU pragma: export
#include "ranklog/version.h"   // IWYU pragma: export

#endif  // RANKLOG_RANKLOG_H_
