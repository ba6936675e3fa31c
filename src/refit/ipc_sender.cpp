#include "refit/ipc_sender.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <span>
#include <utility>

#include "base/copy.h"
#include "refit/ipc_endpoint.h"

namespace rlgen::refit {
namespace {

StatusOr<SharedMemory> new_buffer(int64_t size) {
  static std::atomic<uint64_t> made{0};
  return SharedMemory::create(
      fmt::format("/rlgen-{}-{}-{:08x}", ::getpid(), ++made, std::random_device()()), size);
}

std::span<const std::byte> bytes_of(const TensorView& tensor) {
  return {tensor.data, size_t(tensor.shape.num_elements()) * size_t(size_of(tensor.dtype))};
}

// Puts a tensor behind those of `frame`, at `to` in its buffer. What is larger than a batch has
// left the caches before it is read.
void add(std::string_view name, const TensorView& tensor, std::span<std::byte> to,
         IpcFrame* frame) {
  const auto bytes = bytes_of(tensor);
  if (int64_t(bytes.size()) > kIpcBatchBytes) {
    copy_past_caches(to.data(), bytes.data(), bytes.size());
  } else if (!bytes.empty()) {
    std::memcpy(to.data(), bytes.data(), bytes.size());
  }
  frame->names.emplace_back(name);
  frame->layouts.push_back(ipc_layout(tensor.dtype, tensor.shape));
  frame->used_bytes += int64_t(ipc_align(bytes.size()));
}

}  // namespace

StatusOr<IpcBuffers> IpcBuffers::create(int64_t buffer_bytes) {
  const int64_t half = buffer_bytes / 2;
  if (half <= 0) {
    return absl::InvalidArgumentError(
        fmt::format("buffer_bytes is {}; it must be above 1", buffer_bytes));
  }
  RLGEN_ASSIGN_OR_RETURN(SharedMemory first, new_buffer(half));
  RLGEN_ASSIGN_OR_RETURN(SharedMemory second, new_buffer(half));
  return IpcBuffers{{std::move(first), std::move(second)}, std::nullopt};
}

IpcSender::IpcSender(ZmqSocket socket, const IpcSendOptions& options,
                     std::unique_ptr<IpcBuffers> own)
    : socket_(std::move(socket)),
      options_(options),
      own_(std::move(own)),
      buffers_(own_ ? own_.get() : options.buffers) {}

StatusOr<IpcSender> IpcSender::create(const std::string& endpoint, const IpcSendOptions& options) {
  RLGEN_ASSIGN_OR_RETURN(ZmqSocket socket, ZmqSocket::bind_asking(endpoint));
  std::unique_ptr<IpcBuffers> own;
  if (options.buffers == nullptr) {
    RLGEN_ASSIGN_OR_RETURN(IpcBuffers made, IpcBuffers::create(options.buffer_bytes));
    own = std::make_unique<IpcBuffers>(std::move(made));
  }
  return IpcSender(std::move(socket), options, std::move(own));
}

Status IpcSender::send(std::string_view name, const TensorView& tensor) {
  if (!tensor.is_dense()) {
    return absl::InvalidArgumentError(
        fmt::format("tensor {} is not contiguous; send .contiguous()", name));
  }
  const size_t size = ipc_align(bytes_of(tensor).size());
  const auto room = size_t(buffers_->halves[filling_].size());
  if (size > room) return send_alone(name, tensor);
  if (size > room - size_t(batch_.used_bytes)) RLGEN_RETURN_IF_ERROR(flush());
  const auto to = buffers_->halves[filling_].writable().subspan(size_t(batch_.used_bytes));
  add(name, tensor, to, &batch_);
  return batch_.used_bytes < kIpcBatchBytes ? absl::OkStatus() : flush();
}

Status IpcSender::await_answer() {
  if (!waiting_) return absl::OkStatus();
  const auto answer = socket_.receive(wait(), /*notice_loss=*/false);
  if (absl::IsDeadlineExceeded(answer.status())) {
    return annotate(answer.status(), "no ack; the generation worker may be dead or stuck");
  }
  RLGEN_RETURN_IF_ERROR(answer.status());
  if (*answer != "ack") {
    return absl::InvalidArgumentError(
        fmt::format("the receiver answered with {} bytes instead of "
                    "ack",
                    answer->size()));
  }
  waiting_ = false;
  if (std::exchange(alone_sent_, false) && own_) own_->alone.reset();
  return absl::OkStatus();
}

Status IpcSender::send_frame(const IpcFrame& frame) {
  RLGEN_RETURN_IF_ERROR(await_answer());
  RLGEN_RETURN_IF_ERROR(socket_.send(write_frame(frame), wait()));
  waiting_ = true;
  return absl::OkStatus();
}

// The other buffer is free once the message before this one was answered, which send_frame awaits.
Status IpcSender::flush() {
  if (batch_.names.empty()) return absl::OkStatus();
  const SharedMemory& buffer = buffers_->halves[filling_];
  batch_.buffer = buffer.name();
  batch_.buffer_bytes = buffer.size();
  RLGEN_RETURN_IF_ERROR(send_frame(std::exchange(batch_, {})));
  filling_ = 1 - filling_;
  return absl::OkStatus();
}

Status IpcSender::send_alone(std::string_view name, const TensorView& tensor) {
  RLGEN_RETURN_IF_ERROR(flush());
  if (alone_sent_) RLGEN_RETURN_IF_ERROR(await_answer());
  const auto size = int64_t(ipc_align(bytes_of(tensor).size()));
  auto& alone = buffers_->alone;
  if (!alone || alone->size() < size) {
    alone.reset();
    RLGEN_ASSIGN_OR_RETURN(alone, new_buffer(size));
  }
  IpcFrame frame{
      .complete = false, .buffer = alone->name(), .buffer_bytes = alone->size(), .names = {}};
  add(name, tensor, alone->writable(), &frame);
  RLGEN_RETURN_IF_ERROR(send_frame(frame));
  alone_sent_ = true;
  return absl::OkStatus();
}

Status IpcSender::finish() {
  RLGEN_RETURN_IF_ERROR(flush());
  RLGEN_RETURN_IF_ERROR(send_frame({.complete = true, .buffer = {}, .names = {}}));
  return await_answer();
}

}  // namespace rlgen::refit
