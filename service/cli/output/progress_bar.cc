#include "service/cli/output/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ranklog::cli {
namespace {

constexpr auto kFirstDraw = std::chrono::seconds(1);
constexpr auto kBetweenDraws = std::chrono::milliseconds(100);

}  // namespace

std::string BarText(const std::string& what, uint64_t done, uint64_t total,
                    const Terminal& terminal, const std::string& instead) {
  const double part =
      total == 0 ? 1.0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  // Rounded down, so that only complete work shows 100%.
  const std::string figures =
      absl::StrFormat("%3d%%  %s", static_cast<int>(part * 100),
                      instead.empty() ? absl::StrCat(done, "/", total) : instead);
  const int room = terminal.width - TextWidth(what) - TextWidth(figures) - 6;
  const int cells = std::clamp(room, 0, 40);
  const int full = static_cast<int>(part * cells);
  std::string bar;
  for (int i = 0; i < cells; ++i) {
    if (terminal.unicode) {
      bar += i < full ? "━" : " ";
    } else {
      bar += i < full ? "#" : ".";
    }
  }
  return absl::StrCat(what, " [", bar, "] ", figures);
}

ProgressBar::ProgressBar(std::string what, bool lines)
    : what_(std::move(what)),
      lines_(lines),
      terminal_(Terminal::Of(STDERR_FILENO)),
      next_(Clock::now() + kFirstDraw) {}

void ProgressBar::Update(uint64_t done, uint64_t total, const std::string& figures) {
  if (!terminal_.interactive && !lines_) return;
  // Reading the clock costs more than writing a row. So after many calls, only some of them read
  // it.
  if (++calls_ > 100 && calls_ % 64 != 0 && done != total) return;
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  const std::string bar = BarText(what_, done, total, terminal_, figures);
  if (terminal_.interactive) {
    std::fprintf(stderr, "\r%s\x1b[K", bar.c_str());
    std::fflush(stderr);
    drawn_ = true;
    next_ = now + kBetweenDraws;
  } else if (const uint64_t tenths = total == 0 ? 10 : done * 10 / total; tenths > tenths_) {
    std::fprintf(stderr, "%s\n", bar.c_str());
    tenths_ = tenths;
  }
}

void ProgressBar::Clear() {
  if (!drawn_) return;
  std::fprintf(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace ranklog::cli
