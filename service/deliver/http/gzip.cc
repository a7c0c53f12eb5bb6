#include "service/deliver/http/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

namespace ranklog::deliver {

absl::StatusOr<std::string> Gzip(absl::string_view text) {
  constexpr int kGzipFormat = 16 + MAX_WBITS;
  constexpr int kMemoryLevel = 8;  // zlib's default
  z_stream stream = {};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzipFormat, kMemoryLevel,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return absl::ResourceExhaustedError("gzip: no memory");
  }
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) return absl::InternalError("gzip: the text did not fit");
  return out;
}

struct GzipWriter::Stream {
  z_stream z = {};
  int level = Z_BEST_SPEED;
  bool ok = false;
};

GzipWriter::GzipWriter() : stream_(std::make_unique<Stream>()) {
  constexpr int kGzipFormat = 16 + MAX_WBITS;
  constexpr int kMemoryLevel = 8;  // zlib's default
  stream_->ok = deflateInit2(&stream_->z, stream_->level, Z_DEFLATED, kGzipFormat, kMemoryLevel,
                             Z_DEFAULT_STRATEGY) == Z_OK;
}

GzipWriter::~GzipWriter() {
  if (stream_->ok) deflateEnd(&stream_->z);
}

void GzipWriter::Add(absl::string_view piece) {
  constexpr size_t kPiece = 256 << 10;
  constexpr size_t kProbe = 8 << 10;  // from the middle of a piece
  char probe[kProbe + kProbe / 8];
  while (!piece.empty() && stream_->ok) {
    const absl::string_view part = piece.substr(0, kPiece);
    piece.remove_prefix(part.size());
    const size_t probed = std::min(kProbe, part.size());
    uLongf size = sizeof probe;
    compress2(reinterpret_cast<Bytef*>(probe), &size,
              reinterpret_cast<const Bytef*>(part.data() + (part.size() - probed) / 2), probed,
              Z_BEST_SPEED);
    const int level = size * 8 > probed * 7 ? Z_NO_COMPRESSION : Z_BEST_SPEED;
    if (level != stream_->level) {
      stream_->level = level;
      // Finishes the block so far, which needs room for its output.
      stream_->z.avail_in = 0;
      int result = Z_BUF_ERROR;
      do {
        const size_t old = out_.size();
        out_.resize(old + kPiece);
        stream_->z.next_out = reinterpret_cast<Bytef*>(&out_[old]);
        stream_->z.avail_out = kPiece;
        result = deflateParams(&stream_->z, level, Z_DEFAULT_STRATEGY);
        out_.resize(out_.size() - stream_->z.avail_out);
      } while (result == Z_BUF_ERROR);
      stream_->ok = result == Z_OK;
    }
    Deflate(part, Z_NO_FLUSH);
  }
}

void GzipWriter::Deflate(absl::string_view piece, int flush) {
  constexpr size_t kRoom = 128 << 10;
  z_stream& z = stream_->z;
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
  z.avail_in = static_cast<uInt>(piece.size());
  while (stream_->ok) {
    const size_t old = out_.size();
    out_.resize(old + kRoom);
    z.next_out = reinterpret_cast<Bytef*>(&out_[old]);
    z.avail_out = kRoom;
    const int result = deflate(&z, flush);
    out_.resize(out_.size() - z.avail_out);
    if (result == Z_STREAM_END) return;
    if (flush == Z_NO_FLUSH && z.avail_out > 0) return;
    stream_->ok = result == Z_OK || result == Z_BUF_ERROR;
  }
}

absl::StatusOr<std::string> GzipWriter::Finish() {
  Deflate("", Z_FINISH);
  if (!stream_->ok) return absl::ResourceExhaustedError("gzip: no memory");
  return std::move(out_);
}

}  // namespace ranklog::deliver
