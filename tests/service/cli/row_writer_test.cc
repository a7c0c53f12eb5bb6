#include "service/cli/output/row_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ranklog::cli {
namespace {

using ::testing::ElementsAre;

// Two rows of a shape with two keys, and a row with only a text.
class RowWriterTest : public ::testing::Test {
 protected:
  RowWriterTest() {
    numbers_.shape = 1;
    numbers_.offsets = {0, 1};
    numbers_.steps = {10, 11};
    numbers_.times_us = {1700000000250000, 1700000001000000};
    numbers_.values = {0.1, 3, NAN, -INFINITY};
    numbers_.texts = {{1, "note", "say \"hi\", then\ngo"}};
    texts_.offsets = {2};
    texts_.steps = {12};
    texts_.times_us = {1700000002000000};
    texts_.texts = {{0, "note", "alone"}, {0, "m", R"({"a":[true,"x"]})", true}};
    stream_.key.rank = 3;
    stream_.key.incarnation = 0xC0FFEE;
  }

  std::vector<query::Row> Rows() const {
    return {query::Row{7, 0, numbers_, 0, keys_}, query::Row{7, 1, numbers_, 1, keys_},
            query::Row{7, 2, texts_, 0, no_keys_}};
  }

  std::string All(RowWriter& format, const model::Stream* stream) const {
    std::string text;
    format.AppendHeader(&text);
    for (const query::Row& row : Rows()) format.AppendRow(row, stream, &text);
    return text;
  }

  std::vector<std::string> Columns() const {
    ColumnCollector collector;
    for (const query::Row& row : Rows()) collector.Add(row);
    return collector.Take();
  }

  const std::vector<std::string> keys_ = {"loss", "key \"q\",1"};
  const std::vector<std::string> no_keys_;
  model::Block numbers_;
  model::Block texts_;
  model::Stream stream_;
};

TEST_F(RowWriterTest, WritesRunRowAsJsonObject) {
  EXPECT_EQ(All(*NewJsonRowWriter(), nullptr),
            R"({"_step":10,"_timestamp":1700000000.25,"loss":0.1,"key \"q\",1":3})"
            "\n"
            R"({"_step":11,"_timestamp":1700000001,"loss":NaN,"key \"q\",1":-Infinity,)"
            R"("note":"say \"hi\", then\ngo"})"
            "\n"
            R"({"_step":12,"_timestamp":1700000002,"note":"alone","m":{"a":[true,"x"]}})"
            "\n");
}

TEST_F(RowWriterTest, WritesRankRowWithOrigin) {
  std::string text;
  NewJsonRowWriter()->AppendRow(Rows()[0], &stream_, &text);
  EXPECT_EQ(text, R"({"rank":3,"stream":"0000000000c0ffee","seq":0,"step":10,)"
                  R"("timestamp":1700000000.25,"values":{"loss":0.1,"key \"q\",1":3}})"
                  "\n");
}

TEST_F(RowWriterTest, CollectsColumnsByFirstAppearance) {
  EXPECT_THAT(Columns(), ElementsAre("loss", "key \"q\",1", "note", "m"));
}

TEST_F(RowWriterTest, WritesCsvWithEmptyMissingFields) {
  EXPECT_EQ(All(*NewCsvRowWriter(Columns(), /*raw=*/false), nullptr),
            "_step,_timestamp,loss,\"key \"\"q\"\",1\",note,m\r\n"
            "10,1700000000.25,0.1,3,,\r\n"
            "11,1700000001,NaN,-Infinity,\"say \"\"hi\"\", then\ngo\",\r\n"
            "12,1700000002,,,alone,\"{\"\"a\"\":[true,\"\"x\"\"]}\"\r\n");
}

TEST_F(RowWriterTest, WritesRawCsvWithOrigin) {
  std::string text;
  const auto format = NewCsvRowWriter({"loss", "key \"q\",1"}, /*raw=*/true);
  format->AppendHeader(&text);
  format->AppendRow(Rows()[0], &stream_, &text);
  EXPECT_EQ(text,
            "rank,stream,seq,step,timestamp,loss,\"key \"\"q\"\",1\"\r\n"
            "3,0000000000c0ffee,0,10,1700000000.25,0.1,3\r\n");
}

}  // namespace
}  // namespace ranklog::cli
