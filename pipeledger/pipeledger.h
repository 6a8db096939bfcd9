// Everything a host of the library needs: docs/library.md.
//
// Errors are exceptions: InputError (what is wrong with the input, all of it), RunError (what
// failed through no fault of the input), Cancelled (the host gave it up), InternalError (a bug of
// ours). Nothing is written to stdout or stderr, and no locale is set or asked.
#pragma once

#include "base/internal_error.h"
#include "base/problem.h"
#include "pipeledger/draw.h"
#include "pipeledger/ledger.h"
#include "pipeledger/scenario.h"
#include "pipeledger/simulate.h"
#include "pipeledger/sweep.h"
#include "pipeledger/version.h"
