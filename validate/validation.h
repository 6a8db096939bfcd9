// Predicted against measured: every record, every family.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "validate/predict.h"
#include "validate/record.h"

namespace pipeledger {

/// predicted / measured - 1 for every figure.
struct MemoryError {
  MemoryKind kind = MemoryKind::allocated;
  MeasuredRank rank;
  Bytes measured{};
  Bytes predicted{};

  double error() const { return predicted / measured - 1; }
};

struct TimeError {
  Seconds measured{};
  Seconds predicted{};

  double error() const { return predicted / measured - 1; }
};

struct RecordResult {
  std::string id;
  std::string family;
  std::vector<std::string> assumed;
  std::string skipped;  // why nothing is compared; empty: something is
  std::vector<MemoryError> memory;
  std::optional<TimeError> time;
};

/// Figures over a number of errors.
struct ErrorSummary {
  int count = 0;
  double mean = 0;         // of the absolute values
  double median = 0;       // of the absolute values
  double mean_signed = 0;  // below 0: we predict too little
  double worst = 0;        // the one farthest from 0, signed
};
ErrorSummary summarize(std::vector<double> errors);

struct FamilySummary {
  std::string family;
  std::string figure;  // resident, allocated, ..., or step time
  ErrorSummary errors;
};

struct Validation {
  std::vector<RecordResult> records;
  std::vector<FamilySummary> families;  // in the order of the records
};

/// Simulates each record once; equal scenarios share a simulation.
Validation validate(const std::vector<Record>& records);

/// A table a family, one of the families, and the skipped records with their reasons.
std::string to_text(const Validation& validation);
std::string to_json(const Validation& validation);

}  // namespace pipeledger
