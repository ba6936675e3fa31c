#include "refit/pickle_frame.h"

#include <fmt/format.h>

#include "base/utf8.h"
#include "refit/pickle_value.h"

namespace rlgen::refit {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kComplete = "complete";
constexpr std::string_view kProtocolClass = "IPCProtocol";

Status no_frame(std::string_view why) {
  return absl::InvalidArgumentError(
      fmt::format("the message is neither (buffer, names, used_bytes) nor COMPLETE: {}", why));
}

bool is_text(const PickleValue& value, std::string_view text) {
  return value.kind == Kind::kText && value.text == text;
}

bool is_global(const PickleValue& value, std::string_view name) {
  return value.kind == Kind::kGlobal && value.text == name;
}

// Python's versions write a member as IPCProtocol("complete") or getattr(IPCProtocol, "COMPLETE").
bool is_complete(const PickleValue& value) {
  if (is_text(value, kComplete)) return true;
  if (value.kind != Kind::kCall || value.items[1].kind != Kind::kTuple) return false;
  const std::vector<PickleValue>& args = value.items[1].items;
  if (is_global(value.items[0], kProtocolClass)) {
    return args.size() == 1 && is_text(args[0], kComplete);
  }
  return is_global(value.items[0], "getattr") && args.size() == 2 &&
         is_global(args[0], kProtocolClass) && is_text(args[1], "COMPLETE");
}

Status read_texts(const PickleValue& list, std::string_view what, std::vector<std::string>* texts) {
  if (list.kind != Kind::kList) return no_frame(fmt::format("it has no list of {}s", what));
  for (const PickleValue& item : list.items) {
    if (first_invalid_utf8(item.text)) return no_frame(fmt::format("a {} is no UTF-8", what));
    texts->push_back(item.text);
  }
  return absl::OkStatus();
}

Status read_handle(const PickleValue& handle, IpcFrame* frame) {
  const std::vector<PickleValue>& items = handle.items;
  const bool fits = items.size() == 3 || items.size() == 4;
  if (handle.kind != Kind::kTuple || !fits || !is_text(items[0], kSharedMemoryKind)) {
    return no_frame(
        fmt::format("its buffer is no ('{}', name, size, [types and shapes]); this engine reads "
                    "weights from shared memory of the CPU",
                    kSharedMemoryKind));
  }
  if (items[1].kind != Kind::kText || items[1].text.empty())
    return no_frame("its buffer has no name");
  if (first_invalid_utf8(items[1].text)) return no_frame("its buffer's name is no UTF-8");
  if (items[2].kind != Kind::kInteger || items[2].number < 0) {
    return no_frame("its buffer has no size");
  }
  frame->buffer = items[1].text;
  frame->buffer_bytes = items[2].number;
  return items.size() == 3 ? absl::OkStatus() : read_texts(items[3], "layout", &frame->layouts);
}

void add_text(std::string_view text, std::string* out) {
  const auto size = uint32_t(text.size());
  if (size < 256) {
    out->push_back('\x8c');
    out->push_back(char(size));
  } else {
    out->push_back('X');
    for (int i = 0; i < 4; ++i) out->push_back(char(size >> (8 * i)));
  }
  out->append(text);
}

void add_texts(const std::vector<std::string>& texts, std::string* out) {
  out->append("](");
  for (const std::string& text : texts) add_text(text, out);
  out->push_back('e');
}

void add_integer(int64_t value, std::string* out) {
  out->append("\x8a\x08");
  for (int i = 0; i < 8; ++i) out->push_back(char(uint64_t(value) >> (8 * i)));
}

}  // namespace

std::string ipc_layout(DType dtype, const Shape& shape) {
  return fmt::format("{} {}", torch_name(dtype), shape.to_string());
}

StatusOr<IpcFrame> read_frame(std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxFrameBytes) {
    return absl::InvalidArgumentError(
        fmt::format("the message has {} bytes; the most are {}", bytes.size(), kMaxFrameBytes));
  }
  RLGEN_ASSIGN_OR_RETURN(PickleValue value, read_pickle(bytes));
  IpcFrame frame;
  if (is_complete(value)) {
    frame.complete = true;
    return frame;
  }
  if (value.kind != Kind::kTuple || value.items.size() != 3) return no_frame("it is no triple");
  RLGEN_RETURN_IF_ERROR(read_handle(value.items[0], &frame));
  RLGEN_RETURN_IF_ERROR(read_texts(value.items[1], "name", &frame.names));
  if (value.items[0].items.size() == 4 && frame.layouts.size() != frame.names.size()) {
    return no_frame(fmt::format("it has {} names and types and shapes of {} tensors",
                                frame.names.size(), frame.layouts.size()));
  }
  if (value.items[2].kind != Kind::kInteger || value.items[2].number < 0) {
    return no_frame("it does not say how many bytes are used");
  }
  frame.used_bytes = value.items[2].number;
  return frame;
}

std::string write_frame(const IpcFrame& frame) {
  std::string out("\x80\x04");
  if (frame.complete) {
    add_text("nemo_rl.models.policy.utils", &out);
    add_text(kProtocolClass, &out);
    out.push_back('\x93');
    add_text(kComplete, &out);
    out.append("\x85R.");
    return out;
  }
  const bool tells = !frame.layouts.empty();
  if (tells) out.push_back('(');
  add_text(kSharedMemoryKind, &out);
  add_text(frame.buffer, &out);
  add_integer(frame.buffer_bytes, &out);
  if (tells) add_texts(frame.layouts, &out);
  out.push_back(tells ? 't' : '\x87');
  add_texts(frame.names, &out);
  add_integer(frame.used_bytes, &out);
  out.append("\x87.");
  return out;
}

}  // namespace rlgen::refit
