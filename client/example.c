#include <math.h>
#include <ranklog/c.h>

int main(void) {
  ranklog_settings* settings = ranklog_settings_from_environment();  // set by the launcher
  ranklog_set(settings, "project", "example-c");
  ranklog_run* run = ranklog_init(settings);
  ranklog_settings_free(settings);
  const ranklog_field model[] = {ranklog_integer("layers", 12), ranklog_text("name", "gpt2")};
  const ranklog_field config[] = {ranklog_number("lr", 3e-4), ranklog_object("model", model, 2)};
  ranklog_config(run, config, 2);
  for (int step = 0; step < 1000; ++step) {
    const ranklog_field row[] = {ranklog_number("train/loss", exp(-step / 300.0)),
                                 ranklog_number("wave", sin(step / 50.0))};
    ranklog_log(run, row, 2, step);
  }
  ranklog_finish(run, 0);
  ranklog_release(run, /*failed=*/false);
}
