#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/storage/rows/documents.h"
#include "service/storage/store.h"
#include "service/storage/store_reader.h"

namespace ranklog::storage {
namespace {

using model::Json;

absl::Status DamagedSample(int64_t run, uint64_t number) {
  return absl::DataLossError(absl::StrCat("sample ", number, " of run ", run, " is damaged"));
}

}  // namespace

absl::Status Store::AppendSample(int64_t run, const model::Sample& sample) {
  RETURN_IF_ERROR(CheckInTransaction());
  ASSIGN_OR_RETURN(
      const int64_t next,
      writer_.SelectInteger(
          "SELECT coalesce((SELECT max(number) FROM sample WHERE sample.run = run.id), "
          "-1) + 1 FROM run WHERE id = ?1 AND state = 0",
          {run}));
  Json names = Json::array();
  Json values = Json::array();
  for (const auto& [name, value] : sample.values) {
    names.push_back(name);
    values.push_back(value);
  }
  const std::string keys = EncodeDocument(names);
  absl::StatusOr<int64_t> shape = writer_.SelectInteger(
      "SELECT id FROM sample_shape WHERE run = ?1 AND keys = ?2", {run, Parameter::Blob(keys)});
  if (absl::IsNotFound(shape.status())) {
    RETURN_IF_ERROR(
        Write("INSERT INTO sample_shape(run, keys) VALUES(?1, ?2)", {run, Parameter::Blob(keys)}));
    shape = writer_.last_insert_id();
  }
  RETURN_IF_ERROR(shape.status());
  return Write("INSERT INTO sample(run, number, time_us, shape, data) VALUES(?1, ?2, ?3, ?4, ?5)",
               {run, next, sample.time_us, *shape, Parameter::Blob(EncodeDocument(values))});
}

absl::Status Store::SetHardware(int64_t run, const Json& hardware) {
  RETURN_IF_ERROR(CheckInTransaction());
  return Write(
      "INSERT INTO hardware(id, data) SELECT id, ?2 FROM run WHERE id = ?1 "
      "ON CONFLICT DO UPDATE SET data = excluded.data",
      {run, Parameter::Blob(EncodeDocument(hardware))});
}

absl::StatusOr<std::vector<model::Sample>> StoreReader::Samples(int64_t run, uint64_t from,
                                                                size_t most) {
  std::vector<model::Sample> samples;
  Query query = database_.Select(
      "SELECT number, time_us, sample.data, sample_shape.keys FROM sample "
      "JOIN sample_shape ON sample_shape.id = sample.shape "
      "WHERE sample.run = ?1 AND number >= ?2 ORDER BY number LIMIT ?3",
      {run, from, static_cast<int64_t>(most)});
  while (query.Next()) {
    model::Sample& sample = samples.emplace_back();
    sample.number = query.Unsigned(0);
    sample.time_us = query.Integer(1);
    const absl::StatusOr<Json> values = DecodeDocument(query.Bytes(2));
    const absl::StatusOr<Json> names = DecodeDocument(query.Bytes(3));
    if (!values.ok() || !names.ok() || !values->is_array() || !names->is_array() ||
        values->size() != names->size()) {
      return DamagedSample(run, sample.number);
    }
    for (size_t i = 0; i < names->size(); ++i) {
      const Json& name = (*names)[i];
      const Json& value = (*values)[i];
      if (!name.is_string() || !value.is_number()) return DamagedSample(run, sample.number);
      sample.values.emplace_back(name.get<std::string>(), value.get<double>());
    }
  }
  RETURN_IF_ERROR(query.status());
  return samples;
}

absl::StatusOr<Json> StoreReader::Hardware(int64_t run) {
  Query query = database_.Select("SELECT data FROM hardware WHERE id = ?1", {run});
  if (query.Next()) return DecodeDocument(query.Bytes(0));
  RETURN_IF_ERROR(query.status());
  return Json::object();
}

}  // namespace ranklog::storage
