# Kernels for NVIDIA GPUs: compiled by nvcc, which is called like any tool, so that configuring does not probe a language.
# LLADA_CUDA: AUTO takes nvcc where it is found, in optimised builds that are not cross builds; ON insists; OFF leaves it out.
set(LLADA_CUDA AUTO CACHE STRING "the cuda device: AUTO, ON or OFF")
set(LLADA_CUDA_ARCHITECTURES 80 CACHE STRING "GPU architectures to compile for, such as 80 89 90; newer GPUs compile the last one's PTX when they start")
set(LLADA_CUDA_FOUND FALSE)
if(LLADA_CUDA STREQUAL "AUTO" AND (CMAKE_CROSSCOMPILING OR LLADA_SANITIZE OR LLADA_FUZZERS))
  message(STATUS "CUDA: left out of this kind of build (its source is tested by an emulator)")
elseif(NOT LLADA_CUDA STREQUAL "OFF")
  find_program(LLADA_NVCC nvcc PATHS /usr/local/cuda/bin)
  if(LLADA_NVCC)
    execute_process(COMMAND ${LLADA_NVCC} --version OUTPUT_VARIABLE LLADA_NVCC_VERSION ERROR_QUIET)
    string(REGEX MATCH "release [0-9.]+" LLADA_NVCC_VERSION "${LLADA_NVCC_VERSION}")
    file(REAL_PATH ${LLADA_NVCC} LLADA_NVCC_REAL)
    cmake_path(GET LLADA_NVCC_REAL PARENT_PATH LLADA_CUDA_HOME)
    cmake_path(GET LLADA_CUDA_HOME PARENT_PATH LLADA_CUDA_HOME)
    find_path(LLADA_CUDA_INCLUDE cuda_runtime_api.h PATHS ${LLADA_CUDA_HOME} PATH_SUFFIXES include targets/x86_64-linux/include NO_DEFAULT_PATH)
    find_library(LLADA_CUDART cudart_static PATHS ${LLADA_CUDA_HOME} PATH_SUFFIXES lib64 targets/x86_64-linux/lib NO_DEFAULT_PATH)
    find_path(LLADA_CUDA_INCLUDE cuda_runtime_api.h)  # a distribution's packages
    find_library(LLADA_CUDART cudart_static)
  endif()
  if(LLADA_NVCC AND LLADA_CUDA_INCLUDE AND LLADA_CUDART)
    set(LLADA_CUDA_FOUND TRUE)
    message(STATUS "CUDA: ${LLADA_NVCC} (${LLADA_NVCC_VERSION}), architectures ${LLADA_CUDA_ARCHITECTURES}")
  elseif(LLADA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "LLADA_CUDA=ON: needed nvcc, cuda_runtime_api.h and libcudart_static, found '${LLADA_NVCC}', '${LLADA_CUDA_INCLUDE}', '${LLADA_CUDART}'")
  else()
    message(STATUS "CUDA: no nvcc with its runtime: the device is a stub")
  endif()
endif()

# llada_cuda_kernels(target files.cu...): adds their code, and the runtime, to a target.
function(llada_cuda_kernels target)
  # One nvcc call takes one of them after the other in several processes: each architecture is a compilation of its own.
  set(codes)
  foreach(arch IN LISTS LLADA_CUDA_ARCHITECTURES)
    list(APPEND codes -gencode arch=compute_${arch},code=sm_${arch})
    set(newest ${arch})
  endforeach()
  list(APPEND codes -gencode arch=compute_${newest},code=compute_${newest})
  foreach(file IN LISTS ARGN)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${file}.o)
    # --fmad=false: which products and sums are fused is written in the kernels, so that a row's bits are the same in every variant.
    add_custom_command(OUTPUT ${object}
      COMMAND ${LLADA_NVCC} -O3 -std=c++20 --fmad=false --expt-relaxed-constexpr ${codes} -I${PROJECT_SOURCE_DIR}/src
              -I${CMAKE_CURRENT_SOURCE_DIR}/nvcc -MD -MF ${object}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${file} -o ${object}
      DEPENDS ${file} DEPFILE ${object}.d COMMENT "nvcc ${file}" VERBATIM)
    target_sources(${target} PRIVATE ${object})
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  endforeach()
  target_include_directories(${target} SYSTEM PRIVATE ${LLADA_CUDA_INCLUDE})
  target_link_libraries(${target} PUBLIC ${LLADA_CUDART} Threads::Threads ${CMAKE_DL_LIBS} rt)
endfunction()
