#include "service/deliver/wandb/cursor.h"

#include <gtest/gtest.h>

namespace ranklog::deliver::wandb {
namespace {

TEST(CursorTest, SurvivesJsonRoundTrip) {
  const Cursor place = {.storage_id = "storage",
                        .entity = "entity",
                        .project = "project",
                        .run_id = "run",
                        .display_name = "name",
                        .base_offset = 7,
                        .cut_rows = 8,
                        .cut_updates = 9,
                        .cut_clock = {{100, 0}, {200, 30}},
                        .continued = true,
                        .continued_us = 10,
                        .replays_through = 11,
                        .replayed_rows = 12,
                        .samples = 13,
                        .events_offset = 14,
                        .cut_samples = 15,
                        .alerts = 17,
                        .runtime_before_us = 16,
                        .summary_before = {{"best", 1}},
                        .sent_texts = {{"name", "a1"}},
                        .sent_config = {{"lr", "b2"}},
                        .sent_files = {{"config.yaml", "c3"}},
                        .unannounced_files = {"config.yaml"}};
  const Cursor back = CursorFrom(ToJson(place));
  EXPECT_EQ(ToJson(back), ToJson(place));
  EXPECT_TRUE(back.created());
  EXPECT_EQ(back.base_offset, 7);
  EXPECT_EQ(back.cut_rows, 8u);
  EXPECT_TRUE(back.continued);
  EXPECT_EQ(back.continued_us, 10);
  EXPECT_EQ(back.replays_through, 11);
  EXPECT_EQ(back.replayed_rows, 12u);
  EXPECT_EQ(back.samples, 13u);
  EXPECT_EQ(back.cut_clock, place.cut_clock);
  EXPECT_EQ(back.cut_samples, 15u);
  EXPECT_EQ(back.alerts, 17);
  EXPECT_EQ(back.summary_before, model::Json({{"best", 1}}));
  EXPECT_EQ(back.sent_config.at("lr"), "b2");
  EXPECT_EQ(back.sent_files.at("config.yaml"), "c3");
  EXPECT_EQ(back.unannounced_files.size(), 1u);
}

TEST(CursorTest, DigestsAreTheSameInEveryVersion) {
  EXPECT_EQ(Digest(""), "cbf29ce48422232584222325cbf29ce4");
  EXPECT_EQ(Digest("a").size(), 32u);
  EXPECT_NE(Digest("a"), Digest("b"));
}

TEST(CursorTest, NewDeliveryHasNoCursor) {
  EXPECT_FALSE(CursorFrom(nullptr).created());
  EXPECT_FALSE(CursorFrom(model::Json::object()).created());
  EXPECT_FALSE(CursorFrom({{"storage_id", 5}}).created());
  EXPECT_EQ(CursorFrom(nullptr).replays_through, -1);
  EXPECT_EQ(CursorFrom({{"storage_id", "of an earlier version"}}).replays_through, -1);
}

}  // namespace
}  // namespace ranklog::deliver::wandb
