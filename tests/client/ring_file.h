// Reads a spool file like the daemon after a rank's death. It follows spool_format.md and shares no
// code with the client, so it is an independent check of the client's rings.

#ifndef TESTS_CLIENT_RING_FILE_H_
#define TESTS_CLIENT_RING_FILE_H_

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::testing {

struct FileRow {
  uint64_t seq;
  int64_t step;
  bool commits;
  std::vector<std::pair<std::string, double>> values;
  std::map<std::string, std::string> texts;
  std::map<std::string, std::string> json;  // values that are JSON text
};

struct RingFile {
  v1::Hello hello;
  std::vector<FileRow> rows;
  std::vector<v1::Item> items;
  uint64_t published_rows = 0;
  uint64_t lost_ring_full = 0;
  uint64_t lost_values = 0;
  bool finished = false;
  bool by_destructor = false;
  int32_t exit_code = 0;
  std::string error;  // a violation of spool_format.md
};

// The offsets come from the tables of spool_format.md.
inline RingFile ReadRing(const std::string& path) {
  RingFile ring;
  std::string bytes;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0) {
    ring.error = "cannot open " + path;
    return ring;
  }
  bytes.resize(static_cast<size_t>(info.st_size));
  const ssize_t got = pread(fd, bytes.data(), bytes.size(), 0);
  close(fd);
  const auto u16 = [&](size_t at) {
    uint16_t v;
    memcpy(&v, &bytes[at], 2);
    return v;
  };
  const auto u32 = [&](size_t at) {
    uint32_t v;
    memcpy(&v, &bytes[at], 4);
    return v;
  };
  const auto u64 = [&](size_t at) {
    uint64_t v;
    memcpy(&v, &bytes[at], 8);
    return v;
  };
  if (got != static_cast<ssize_t>(bytes.size()) || bytes.size() < 69632 ||
      bytes.compare(0, 8, std::string("RANKLG1\0", 8)) != 0 || u32(8) != 1) {
    ring.error = "no ring of version 1";
    return ring;
  }
  const size_t data = u64(16), capacity = u64(24);
  if (data != 69632 || data + capacity != bytes.size()) ring.error = "wrong sizes";
  if (!ring.hello.ParseFromArray(&bytes[4096], static_cast<int>(u32(40)))) ring.error = "no Hello";
  const uint64_t head = u64(64), tail = u64(128);
  ring.published_rows = u64(72);
  ring.lost_ring_full = u64(80);
  ring.lost_values = u64(208);
  ring.finished = u32(192) == 1 || u32(192) == 2;
  ring.by_destructor = u32(192) == 2;
  ring.exit_code = static_cast<int32_t>(u32(196));
  std::map<uint32_t, std::vector<std::string>> shapes;
  for (uint64_t position = tail; position != head && ring.error.empty();) {
    const size_t at = data + position % capacity;
    const uint32_t size = u32(at);
    if (size < 8 || size % 8 != 0 || at + size > bytes.size() || position + size > head) {
      ring.error = "a record's size is wrong";
      break;
    }
    const uint16_t kind = u16(at + 4);
    if (kind == 1) {
      size_t key = at + 24;
      std::vector<std::string>& keys = shapes[u32(at + 8)];
      for (uint32_t i = 0; i < u32(at + 12); ++i) {
        keys.push_back(bytes.substr(key + 4, u32(key)));
        key += 4 + u32(key);
      }
    } else if (kind == 2) {
      FileRow row{
          u64(at + 16), static_cast<int64_t>(u64(at + 24)), (u16(at + 6) & 1) != 0, {}, {}, {}};
      const uint32_t shape = u32(at + 8), count = u32(at + 12);
      if (count != (shape == 0 ? 0 : shapes[shape].size())) ring.error = "a row is torn";
      for (uint32_t i = 0; i < count && ring.error.empty(); ++i) {
        double value;
        memcpy(&value, &bytes[at + 48 + 8 * i], 8);
        row.values.emplace_back(shapes[shape][i], value);
      }
      size_t text = at + 48 + 8 * count;
      for (uint32_t i = 0; i < u32(at + 44); ++i) {
        const uint32_t key = u16(text), value = u32(text + 4);
        (u16(text + 2) == 0 ? row.texts : row.json)[bytes.substr(text + 8, key)] =
            bytes.substr(text + 8 + key, value);
        text += 8 + key + value;
      }
      if (!ring.rows.empty() && row.seq != ring.rows.back().seq + 1) ring.error = "a gap in seq";
      ring.rows.push_back(std::move(row));
    } else if (kind == 3) {
      v1::Item& item = ring.items.emplace_back();
      if (!item.ParseFromArray(&bytes[at + 40], static_cast<int>(u32(at + 8)))) {
        ring.error = "an item cannot be parsed";
      }
      if (u64(at + 16) != ring.items.size() && tail == 0) ring.error = "a gap in the items";
      item.set_seq(u64(at + 16));
      item.set_after_row(u64(at + 24));
    } else if (kind != 0) {
      ring.error = "an unknown record";
    }
    position += size;
  }
  return ring;
}

// Returns the spool files of a directory.
inline std::vector<std::string> RingPaths(const std::string& dir) {
  std::vector<std::string> paths;
  DIR* const entries = opendir(dir.c_str());
  while (const dirent* entry = entries == nullptr ? nullptr : readdir(entries)) {
    const std::string name = entry->d_name;
    if (name.rfind("ring-", 0) == 0) paths.push_back(dir + "/" + name);
  }
  if (entries != nullptr) closedir(entries);
  return paths;
}

}  // namespace ranklog::testing

#endif  // TESTS_CLIENT_RING_FILE_H_
