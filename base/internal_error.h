// A bug on our side, as a host of the library meets it.
#pragma once

#include <stdexcept>

namespace pipeledger {

/// Something that cannot be is: what() names the condition, where it stands and its values. The
/// program aborts on it; a host may go on, but not with the objects that took part.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace pipeledger
