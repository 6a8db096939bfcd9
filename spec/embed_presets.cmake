# Writes a source with the presets of a kind, for spec/preset.h:
#   cmake -DKIND=model -DFILES=a.textproto;b.textproto -DOUTPUT=model_presets.cc -P embed_presets.cmake
set(names "")
foreach(file ${FILES})
  cmake_path(GET file STEM LAST_ONLY name)
  cmake_path(GET file PARENT_PATH folder)
  list(APPEND names ${name})
endforeach()
list(SORT names)
set(entries "")
foreach(name ${names})
  file(READ ${folder}/${name}.textproto text)
  # Raw strings, so a file stands in the source as it is. Semicolons and brackets survive: none of this is a list.
  string(APPEND entries "    Preset{\"${name}\", R\"preset(${text})preset\"},\n")
endforeach()
file(WRITE ${OUTPUT} "// Made by spec/embed_presets.cmake of the files in presets/.
#include <array>

#include \"spec/preset.h\"

namespace pipeledger {

std::span<const Preset> ${KIND}_presets() {
  static constexpr std::array kPresets = {
${entries}  };
  return kPresets;
}

}  // namespace pipeledger
")
