# llada_page(target): the page of `llada serve`, put together from src/serve/page, and openapi.json, compiled into the
# target.
#
# page.html has the places @style@, @libraries@ and @script@; the scripts go in by the order of the lists below, since
# each uses the ones before it. The page's policy names the parts by their digests, so a browser runs nothing else.

# SHA-256 of a text in base64, as a Content-Security-Policy has it; CMake has digests in hexadecimal alone.
function(llada_base64_digest text out)
  string(SHA256 hex "${text}")
  string(APPEND hex 00)  # 32 bytes are filled up to 33: 11 groups of 3 bytes, of 4 digits each
  set(digits ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/)
  set(encoded "")
  foreach(group RANGE 10)
    math(EXPR at "${group} * 6")
    string(SUBSTRING ${hex} ${at} 6 bytes)
    foreach(shift IN ITEMS 18 12 6 0)
      math(EXPR digit "(0x${bytes} >> ${shift}) & 63")
      string(SUBSTRING ${digits} ${digit} 1 digit)
      string(APPEND encoded ${digit})
    endforeach()
  endforeach()
  string(REGEX REPLACE ".$" "=" encoded ${encoded})  # the filled-up byte
  set(${out} ${encoded} PARENT_SCOPE)
endfunction()

# The files one after another; each is read again when it changes.
function(llada_joined out)
  set(joined "")
  foreach(file IN LISTS ARGN)
    file(READ ${file} text)
    string(APPEND joined "${text}\n")
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
  set(${out} "${joined}" PARENT_SCOPE)
endfunction()

function(llada_page target)
  set(folder ${PROJECT_SOURCE_DIR}/src/serve/page)
  set(parts parts store wire recording conversations markdown answer words settings schema form tools files meter
            exchange work list chat compare fill decide main)
  list(TRANSFORM parts REPLACE "(.+)" "${folder}/\\1.js")
  llada_joined(script ${parts})
  set(libraries marked/marked.umd.min.js dompurify/purify.min.js katex/katex.min.js)
  list(TRANSFORM libraries PREPEND ${PROJECT_SOURCE_DIR}/third_party/)
  llada_joined(libraries ${libraries})
  file(READ ${folder}/page.css style)
  file(READ ${folder}/page.html html)
  file(READ ${folder}/../openapi.json LLADA_OPENAPI)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/page.css ${folder}/page.html
               ${folder}/../openapi.json)
  llada_base64_digest("${libraries}" LLADA_PAGE_LIBRARIES_DIGEST)
  llada_base64_digest("${script}" LLADA_PAGE_SCRIPT_DIGEST)
  llada_base64_digest("${style}" LLADA_PAGE_STYLE_DIGEST)
  string(REPLACE "@style@" "${style}" html "${html}")
  string(REPLACE "@libraries@" "${libraries}" html "${html}")
  string(REPLACE "@script@" "${script}" html "${html}")
  string(SHA256 LLADA_PAGE_TAG "${html}")
  set(LLADA_PAGE_HTML "${html}")
  configure_file(${folder}/page.cc.in ${CMAKE_CURRENT_BINARY_DIR}/page.cc @ONLY)
  # KaTeX has a range of characters that begins with a mark of writing direction.
  set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/page.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON
                              COMPILE_OPTIONS "$<$<CXX_COMPILER_ID:GNU>:-Wno-bidi-chars>")
  target_sources(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/page.cc)
endfunction()
