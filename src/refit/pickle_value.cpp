#include "refit/pickle_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace rlgen::refit {
namespace {

using Kind = PickleValue::Kind;

constexpr size_t kMaxValues = 1 << 22;
constexpr size_t kMaxDepth = 16;

enum class Op : uint8_t {
  kMark = '(',
  kStop = '.',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kReduce = 'R',
  kBinUnicode = 'X',
  kAppend = 'a',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kTuple = 't',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

size_t depth_of(const PickleValue& value) {
  size_t deepest = 0;
  for (const PickleValue& item : value.items) deepest = std::max(deepest, depth_of(item));
  return deepest + 1;
}

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  StatusOr<PickleValue> read() {
    while (true) {
      op_at_ = at_;
      RLGEN_ASSIGN_OR_RETURN(const uint64_t code, number(1));
      const Op op = Op(code);
      if (op == Op::kStop) break;
      RLGEN_RETURN_IF_ERROR(step(op));
      if (++values_ > kMaxValues) return wrong("has too many values");
    }
    if (at_ != bytes_.size()) return wrong("goes on after its end");
    if (stack_.size() != 1 || stack_[0].kind == Kind::kMark)
      return wrong("does not hold one value");
    return std::move(stack_[0]);
  }

 private:
  Status wrong(std::string_view what) const {
    return absl::InvalidArgumentError(fmt::format("the message {} (at byte {})", what, op_at_));
  }

  StatusOr<std::string_view> take(uint64_t size) {
    if (size > bytes_.size() - at_) return wrong("is cut off");
    const auto* begin = reinterpret_cast<const char*>(bytes_.data()) + at_;
    at_ += size_t(size);
    return std::string_view(begin, size_t(size));
  }

  // Little endian, without a sign.
  StatusOr<uint64_t> number(size_t size) {
    RLGEN_ASSIGN_OR_RETURN(const std::string_view raw, take(size));
    uint64_t value = 0;
    for (size_t i = size; i-- > 0;) value = value << 8 | uint8_t(raw[i]);
    return value;
  }

  // The same, with one.
  StatusOr<int64_t> signed_number(size_t size) {
    RLGEN_ASSIGN_OR_RETURN(const uint64_t value, number(size));
    if (size == 0 || size == 8) return int64_t(value);
    const uint64_t sign = uint64_t(1) << (8 * size - 1);
    return int64_t(value ^ sign) - int64_t(sign);
  }

  Status push(PickleValue value) {
    stack_.push_back(std::move(value));
    return absl::OkStatus();
  }
  Status push_number(Kind kind, StatusOr<int64_t> value) {
    RLGEN_RETURN_IF_ERROR(value.status());
    return push({.kind = kind, .number = *value, .text = {}, .items = {}});
  }
  Status push_text(Kind kind, size_t length_bytes) {
    RLGEN_ASSIGN_OR_RETURN(const uint64_t size, number(length_bytes));
    RLGEN_ASSIGN_OR_RETURN(const std::string_view text, take(size));
    return push({.kind = kind, .number = 0, .text = std::string(text), .items = {}});
  }

  StatusOr<PickleValue> pop() {
    if (stack_.empty() || stack_.back().kind == Kind::kMark) return wrong("lacks a value");
    PickleValue top = std::move(stack_.back());
    stack_.pop_back();
    return top;
  }

  // What stands above the last mark, which goes too.
  StatusOr<std::vector<PickleValue>> pop_to_mark() {
    size_t first = stack_.size();
    while (first > 0 && stack_[first - 1].kind != Kind::kMark) --first;
    if (first == 0) return wrong("lacks a mark");
    std::vector<PickleValue> items(std::make_move_iterator(stack_.begin() + ptrdiff_t(first)),
                                   std::make_move_iterator(stack_.end()));
    stack_.resize(first - 1);
    return items;
  }

  Status push_tuple(std::vector<PickleValue> items) {
    PickleValue tuple{.kind = Kind::kTuple, .number = 0, .text = {}, .items = std::move(items)};
    if (depth_of(tuple) > kMaxDepth) return wrong("is nested too deeply");
    return push(std::move(tuple));
  }
  Status push_tuple_of(size_t count) {
    std::vector<PickleValue> items(count);
    for (size_t i = count; i-- > 0;) {
      RLGEN_ASSIGN_OR_RETURN(items[i], pop());
    }
    return push_tuple(std::move(items));
  }

  Status append(std::vector<PickleValue> items) {
    if (stack_.empty() || stack_.back().kind != Kind::kList) return wrong("appends to no list");
    for (PickleValue& item : items) {
      if (item.kind != Kind::kText) return wrong("has a list of other things than names");
      stack_.back().items.push_back(std::move(item));
    }
    return absl::OkStatus();
  }

  // Only text is ever asked for again; other values need no place.
  Status remember(uint64_t slot) {
    if (stack_.empty()) return wrong("remembers nothing");
    if (stack_.back().kind == Kind::kText) memo_[slot] = stack_.back().text;
    next_slot_ = std::max(next_slot_, slot + 1);
    return absl::OkStatus();
  }
  Status recall(StatusOr<uint64_t> slot) {
    RLGEN_RETURN_IF_ERROR(slot.status());
    const auto found = memo_.find(*slot);
    if (found == memo_.end()) return wrong("recalls what is no text");
    recalled_ += found->second.size();
    if (recalled_ > bytes_.size() + kMaxValues) return wrong("repeats itself too often");
    return push({.kind = Kind::kText, .number = 0, .text = found->second, .items = {}});
  }

  Status push_global(std::string name) {
    return push({.kind = Kind::kGlobal, .number = 0, .text = std::move(name), .items = {}});
  }
  Status read_global() {
    const auto rest = std::string_view(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
    const size_t module_end = rest.find('\n', at_);
    const size_t end = module_end == rest.npos ? rest.npos : rest.find('\n', module_end + 1);
    if (end == rest.npos) return wrong("is cut off");
    at_ = end + 1;
    return push_global(std::string(rest.substr(module_end + 1, end - module_end - 1)));
  }
  Status stack_global() {
    RLGEN_ASSIGN_OR_RETURN(PickleValue name, pop());
    RLGEN_ASSIGN_OR_RETURN(const PickleValue module, pop());
    if (name.kind != Kind::kText || module.kind != Kind::kText) return wrong("names no global");
    return push_global(std::move(name.text));
  }
  Status reduce() {
    PickleValue call{.kind = Kind::kCall, .number = 0, .text = {}, .items = {}};
    call.items.resize(2);
    RLGEN_ASSIGN_OR_RETURN(call.items[1], pop());
    RLGEN_ASSIGN_OR_RETURN(call.items[0], pop());
    if (call.items[0].kind != Kind::kGlobal) return wrong("calls what is no global");
    return push(std::move(call));
  }

  Status step(Op op) {
    switch (op) {
      case Op::kProto: {
        RLGEN_ASSIGN_OR_RETURN(const uint64_t protocol, number(1));
        return protocol >= 2 && protocol <= 5 ? absl::OkStatus() : wrong("has an unknown protocol");
      }
      case Op::kFrame:
        return number(8).status();
      case Op::kNone:
        return push({});
      case Op::kNewTrue:
      case Op::kNewFalse:
        return push_number(Kind::kBool, op == Op::kNewTrue ? 1 : 0);
      case Op::kBinInt:
        return push_number(Kind::kInteger, signed_number(4));
      case Op::kBinInt1:
      case Op::kBinInt2: {
        RLGEN_ASSIGN_OR_RETURN(const uint64_t value, number(op == Op::kBinInt1 ? 1 : 2));
        return push_number(Kind::kInteger, int64_t(value));
      }
      case Op::kLong1: {
        RLGEN_ASSIGN_OR_RETURN(const uint64_t size, number(1));
        if (size > 8) return wrong("has a number beyond 64 bits");
        return push_number(Kind::kInteger, signed_number(size_t(size)));
      }
      case Op::kShortBinUnicode:
        return push_text(Kind::kText, 1);
      case Op::kBinUnicode:
        return push_text(Kind::kText, 4);
      case Op::kShortBinBytes:
        return push_text(Kind::kBytes, 1);
      case Op::kBinBytes:
        return push_text(Kind::kBytes, 4);
      default:
        return step_on_stack(op);
    }
  }

  Status step_on_stack(Op op) {
    switch (op) {
      case Op::kMark:
        return push({.kind = Kind::kMark, .number = 0, .text = {}, .items = {}});
      case Op::kEmptyList:
        return push({.kind = Kind::kList, .number = 0, .text = {}, .items = {}});
      case Op::kEmptyTuple:
        return push_tuple({});
      case Op::kTuple: {
        RLGEN_ASSIGN_OR_RETURN(auto items, pop_to_mark());
        return push_tuple(std::move(items));
      }
      case Op::kTuple1:
      case Op::kTuple2:
      case Op::kTuple3:
        return push_tuple_of(size_t(op) - size_t(Op::kTuple1) + 1);
      case Op::kAppend: {
        RLGEN_ASSIGN_OR_RETURN(PickleValue item, pop());
        std::vector<PickleValue> one;
        one.push_back(std::move(item));
        return append(std::move(one));
      }
      case Op::kAppends: {
        RLGEN_ASSIGN_OR_RETURN(auto items, pop_to_mark());
        return append(std::move(items));
      }
      case Op::kMemoize:
        return remember(next_slot_);
      case Op::kBinPut:
      case Op::kLongBinPut: {
        RLGEN_ASSIGN_OR_RETURN(const uint64_t slot, number(op == Op::kBinPut ? 1 : 4));
        return remember(slot);
      }
      case Op::kBinGet:
        return recall(number(1));
      case Op::kLongBinGet:
        return recall(number(4));
      case Op::kGlobal:
        return read_global();
      case Op::kStackGlobal:
        return stack_global();
      case Op::kReduce:
        return reduce();
      default:
        return wrong(fmt::format("has the opcode {:#04x}, which no message needs", uint8_t(op)));
    }
  }

  const std::span<const std::byte> bytes_;
  size_t at_ = 0;
  size_t op_at_ = 0;
  size_t values_ = 0;
  size_t recalled_ = 0;
  uint64_t next_slot_ = 0;
  std::vector<PickleValue> stack_;
  std::map<uint64_t, std::string> memo_;
};

}  // namespace

StatusOr<PickleValue> read_pickle(std::span<const std::byte> bytes) { return Reader(bytes).read(); }

}  // namespace rlgen::refit
