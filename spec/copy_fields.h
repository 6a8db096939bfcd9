// The fields of a message into the members of a struct that have their names: what of resolving a
// scenario is mere copying.
#pragma once

#include <optional>
#include <type_traits>

#include "base/units.h"
#include "spec/field_visits.h"
#include "spec/schema_enums.h"

namespace pipeledger {

template <class To>
inline constexpr bool is_optional_v = false;
template <class Value>
inline constexpr bool is_optional_v<std::optional<Value>> = true;

template <class To, class From>
inline constexpr bool is_same_enum_v = false;
template <class To, class From>
requires requires { typename SchemaEnum<To>::type; }
inline constexpr bool is_same_enum_v<To, From> =
    std::is_same_v<typename SchemaEnum<To>::type, From>;

/// Not so where a field and a member have a name and no more in common, as text that is parsed into
/// a structure.
template <class To, class From>
inline constexpr bool is_copied_v = std::is_same_v<To, From> || is_same_enum_v<To, From> ||
                                    (std::is_same_v<To, Bytes> && std::is_integral_v<From>);

/// A field's value, its default where it is not written, into the member: an enum of ours for the
/// schema's, Bytes for a count of them. A member that is optional gets what is written, and no
/// default.
template <class From, class To>
void copy_field(bool is_written, const From& value, To& member) {
  if constexpr (is_optional_v<To>) {
    if constexpr (is_copied_v<typename To::value_type, From>)
      if (is_written) member = static_cast<typename To::value_type>(value);
  } else if constexpr (is_copied_v<To, From>) {
    member = static_cast<To>(value);
  }
}

/// Copies every field of `written` into the member of `members` that has its name and its type.
/// Members without such a field stay as they are; fields that are groups or lists are not copied.
template <class Message, class Struct>
void copy_fields(const Message& written, Struct& members) {
  visit_fields(written, members, [](const char*, bool is_written, const auto& value, auto& member) {
    copy_field(is_written, value, member);
  });
}

}  // namespace pipeledger
