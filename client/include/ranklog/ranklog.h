// Ranklog: the experiment log of a distributed training job.
//
//   ranklog::Settings settings = ranklog::Settings::FromEnvironment();
//   settings.project = "gpt";
//   ranklog::Run run = ranklog::Init(settings);
//   run.Log({{"train/loss", loss}, {"lr", lr}}, step);
//   run.Finish(0);
//
// No function throws, installs a signal handler or fails the training. Messages for the user go to
// stderr, from a background thread; see Settings::on_message and Settings::quiet.

#ifndef RANKLOG_RANKLOG_H_
#define RANKLOG_RANKLOG_H_

#if __cplusplus < 201703L
#error "Ranklog needs C++17: compile with -std=c++17 or later"
#else

#include "ranklog/histogram.h"  // IWYU pragma: export
#include "ranklog/media.h"      // IWYU pragma: export
#include "ranklog/run.h"        // IWYU pragma: export
#include "ranklog/settings.h"   // IWYU pragma: export
#include "ranklog/span.h"       // IWYU pragma: export
#include "ranklog/value.h"      // IWYU pragma: export
#include "ranklog/version.h"    // IWYU pragma: export

#endif

#endif  // RANKLOG_RANKLOG_H_
