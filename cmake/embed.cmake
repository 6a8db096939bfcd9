# embed_texts(HEADER file...): makes HEADER in the build tree, which holds the files as they are:
# web/page.js becomes pipeledger::web::page_js. The header is a source of the target that includes it.
function(embed_texts header)
  set(files ${ARGN})
  list(TRANSFORM files PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_texts.cmake)
  add_custom_command(
    OUTPUT ${PROJECT_BINARY_DIR}/${header}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DOUTPUT=${PROJECT_BINARY_DIR}/${header} -P ${script}
    DEPENDS ${files} ${script}
    VERBATIM)
endfunction()
