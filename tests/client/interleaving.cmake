# Makes copies of the client's sources for interleaving_test:
#   cmake -DROOT=<source tree> -DTO=<folder> -DSOURCES=a.cc,b.cc -P interleaving.cmake
# It copies all headers of client/, the spool's layout, and the named sources. In the copies, each atomic, mutex and
# wait is one of scheduler.h, and a known bug is active while Planted("name") is true. The sources themselves contain
# nothing of it. If a line is not found any more, the build fails: give the bug its new place.
cmake_minimum_required(VERSION 3.25)

set(bugs 0)

# plant(FILE NAME OLD NEW): in FILE, replaces OLD by NEW. @BUG@ in NEW becomes the query whether the bug is active.
function(plant file name old new)
  if(source STREQUAL file)
    string(FIND "${text}" "${old}" place)
    if(place EQUAL -1)
      message(FATAL_ERROR "planted bug ${name}: '${old}' is not in client/${file}; see tests/client/interleaving.cmake")
    endif()
    string(REPLACE "@BUG@" "::ranklog::testing::Planted(\"${name}\")" bug "${new}")
    string(REPLACE "${old}" "${bug}" planted "${text}")
    set(text "${planted}" PARENT_SCOPE)
    math(EXPR count "${bugs} + 1")
    set(bugs ${count} PARENT_SCOPE)
  endif()
endfunction()

function(copy from to)
  file(READ ${from} text)
  plant(stream/stream_protocol.cc head_before_closing
    "if (!ring_->closing.load(std::memory_order_acquire)) return false;"
    "if (@BUG@ && reader_.position() != ring_->head()) return false; if (!ring_->closing.load(std::memory_order_acquire)) return false;")
  plant(stream/stream_protocol.cc head_before_closing
    "if (reader_.position() != ring_->head() || "
    "if ((!@BUG@ && reader_.position() != ring_->head()) || ")
  plant(run/run_items.cc update_is_not_busy
    "  const WriterCall call(writer);\n"
    "  std::optional<WriterCall> call; if (!@BUG@) call.emplace(writer);\n")
  plant(run/run_rings.cc late_ring_is_used
    "if (closed_.load()) {  // Finish()"
    "if (closed_.load() && !@BUG@) {  // Finish()")
  plant(run/run_finish.cc busy_is_not_awaited
    "while (ring->writer.busy.load(std::memory_order_acquire)) {"
    "while (!@BUG@ && ring->writer.busy.load(std::memory_order_acquire)) {")
  plant(run/run_rings.cc handler_waits_for_its_thread
    "if (!usable_ || WriterSearch::InProgress()) return nullptr;"
    "if (!usable_ || (WriterSearch::InProgress() && !@BUG@)) return nullptr;")
  plant(run/run_rings.cc token_before_writer
    "thread_cache.token = 0;\n"
    "thread_cache.token = @BUG@ ? token_ : 0;\n")
  plant(run/log_row.h closed_before_busy
    "    const WriterCall call(writer);\n"
    "    if (@BUG@ && closed_.load()) return Refused(writer, WriteResult::kAfterFinish); const WriterCall call(writer);\n")
  plant(run/log_row.h closed_before_busy
    "    if (attention_.load(std::memory_order_relaxed) != 0) [[unlikely]] {"
    "    if (!@BUG@ && attention_.load(std::memory_order_relaxed) != 0) [[unlikely]] {")
  plant(run/log_row.h handler_is_let_in
    "if (WriterCall::IsInterrupted(*writer)) [[unlikely]] {"
    "if (!@BUG@ && WriterCall::IsInterrupted(*writer)) [[unlikely]] {")
  plant(ring/ring_writer.cc head_before_record
    "  std::memcpy(record, &row, sizeof row);\n"
    "  if (@BUG@) header_->head.store(head_ + bytes), header_->head.load(); std::memcpy(record, &row, sizeof row);\n")
  plant(ring/ring_writer.cc tail_of_the_past
    "const size_t free = capacity_ - (head_ - header_->tail.load(std::memory_order_acquire));"
    "const size_t free = @BUG@ ? capacity_ : capacity_ - (head_ - header_->tail.load(std::memory_order_acquire));")

  # A thread_local belongs to a thread of the test, which saves and restores those of thread_rings.cc.
  string(REGEX MATCHALL "thread_local [A-Za-z]" locals "${text}")
  list(LENGTH locals count)
  math(EXPR all "${locals_seen} + ${count}")
  set(locals_seen ${all} PARENT_SCOPE)

  string(REGEX REPLACE "std::atomic<" "::ranklog::testing::Atomic<" text "${text}")
  string(REPLACE "std::atomic_signal_fence(std::memory_order_seq_cst)" "::ranklog::testing::SignalFence()" text "${text}")
  string(REPLACE "std::mutex" "::ranklog::testing::FiberMutex" text "${text}")
  string(REPLACE "sched_yield()" "::ranklog::testing::Yield()" text "${text}")
  if(text MATCHES "std::atomic|std::mutex")
    message(FATAL_ERROR "${from}: '${CMAKE_MATCH_0}' is not one that interleaving.cmake knows")
  endif()
  file(WRITE ${to} "#include \"tests/client/scheduler.h\"\n#line 1 \"${from}\"\n${text}")
  set(bugs ${bugs} PARENT_SCOPE)
endfunction()

set(locals_seen 0)
file(GLOB headers RELATIVE ${ROOT}/client ${ROOT}/client/*.h ${ROOT}/client/*/*.h ${ROOT}/client/*/*/*.h)
string(REPLACE "," ";" sources "${SOURCES}")
foreach(source ${headers} ${sources})
  copy(${ROOT}/client/${source} ${TO}/client/${source})
endforeach()
set(source spool_layout.h)
copy(${ROOT}/proto/ranklog/v1/spool_layout.h ${TO}/ranklog/v1/spool_layout.h)

if(NOT bugs EQUAL 12)
  message(FATAL_ERROR "${bugs} places of planted bugs were changed, not 12: is a source left out?")
endif()
if(NOT locals_seen EQUAL 5)  # one is declared in thread_rings.h
  message(FATAL_ERROR "${locals_seen} thread_local variables, not 5: the test's Locals must have them all")
endif()
