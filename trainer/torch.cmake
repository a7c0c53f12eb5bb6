# The target ranklog_torch: LibTorch with c10d over Gloo, and over NCCL if it has CUDA. It works
# with Debian 12's 1.13, and with 2.8 or later of PyTorch's wheels: pass
# torch.utils.cmake_prefix_path as CMAKE_PREFIX_PATH. No CUDA toolkit and no nvcc are needed.
# find_package(Torch) cannot be used: it requires both. If Debian's package is installed too, it
# links Debian's libc10 with another version's libtorch_cpu.
option(RANKLOG_CUDA "Use CUDA and NCCL if LibTorch has them" ON)

set(hints ${CMAKE_PREFIX_PATH})
list(TRANSFORM hints APPEND /../..)  # from <torch>/share/cmake
find_path(TORCH_INCLUDE_DIR ATen/ATen.h HINTS ${hints} PATH_SUFFIXES include)
find_library(TORCH_CPU_LIBRARY torch_cpu HINTS ${hints} PATH_SUFFIXES lib)
if(NOT TORCH_INCLUDE_DIR OR NOT TORCH_CPU_LIBRARY)
  message(FATAL_ERROR "LibTorch is not installed: run deploy/install-deps.sh, or configure with -DRANKLOG_TRAINER=OFF")
endif()
# Headers only: the program refers to no symbol of Gloo, which is inside LibTorch or linked by it.
find_path(GLOO_INCLUDE_DIR gloo/config.h)
if(NOT GLOO_INCLUDE_DIR)
  message(FATAL_ERROR "Gloo's headers (libgloo-dev) are not installed: run deploy/install-deps.sh")
endif()

get_filename_component(torch_lib_dir ${TORCH_CPU_LIBRARY} DIRECTORY)
find_file(TORCH_VERSION_HEADER NAMES torch/headeronly/version.h torch/csrc/api/include/torch/version.h
          HINTS ${TORCH_INCLUDE_DIR} NO_DEFAULT_PATH REQUIRED)
file(STRINGS ${TORCH_VERSION_HEADER} version REGEX "define TORCH_VERSION_M")
string(REGEX REPLACE "[^0-9]*MAJOR ([0-9]+)[^0-9]*MINOR ([0-9]+).*" "\\1.\\2" TORCH_VERSION "${version}")
if(TORCH_VERSION VERSION_LESS 2.8 AND NOT TORCH_VERSION VERSION_EQUAL 1.13)
  message(FATAL_ERROR "LibTorch ${TORCH_VERSION} in ${torch_lib_dir}: need Debian's 1.13, or 2.8 or newer")
endif()
message(STATUS "LibTorch ${TORCH_VERSION}: ${TORCH_CPU_LIBRARY}")

add_library(ranklog_torch INTERFACE)
target_compile_definitions(ranklog_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
target_include_directories(ranklog_torch SYSTEM INTERFACE
  ${TORCH_INCLUDE_DIR} ${TORCH_INCLUDE_DIR}/torch/csrc/api/include ${GLOO_INCLUDE_DIR})
target_link_libraries(ranklog_torch INTERFACE ${TORCH_CPU_LIBRARY} ${torch_lib_dir}/libc10.so)
if(TORCH_VERSION VERSION_EQUAL 1.13)
  target_include_directories(ranklog_torch SYSTEM AFTER INTERFACE ${CMAKE_CURRENT_LIST_DIR}/shim113)
  find_library(GLOG_LIBRARY glog REQUIRED)  # a dependency of libtorch-dev; torch_compat.h sets one of its flags
  target_link_libraries(ranklog_torch INTERFACE ${GLOG_LIBRARY})
endif()

set(TORCH_CUDA_LIBRARY)
if(RANKLOG_CUDA)
  find_library(TORCH_CUDA_LIBRARY torch_cuda HINTS ${torch_lib_dir} NO_DEFAULT_PATH NO_CACHE)
endif()
if(NOT TORCH_CUDA_LIBRARY)
  return()
endif()
# The headers of LibTorch's CUDA release: from the wheels beside torch's, or else from a toolkit.
file(GLOB cuda_includes ${torch_lib_dir}/../../nvidia/*/include)
if(NOT cuda_includes)
  set(cuda_includes /usr/local/cuda/include)
endif()
foreach(header cuda_runtime_api.h crt/host_config.h nv/target cusparse.h nccl.h)
  find_path(folder ${header} HINTS ${cuda_includes} NO_DEFAULT_PATH NO_CACHE)
  if(NOT folder)
    message(FATAL_ERROR "LibTorch has CUDA, but ${header} is not in ${cuda_includes}: pip install nvidia-cuda-crt and "
                        "nvidia-cuda-cccl of the same CUDA release, or configure with -DRANKLOG_CUDA=OFF")
  endif()
  unset(folder)
endforeach()
list(TRANSFORM cuda_includes REPLACE /include$ "" OUTPUT_VARIABLE cuda)
find_library(CUDART_LIBRARY NAMES libcudart.so.13 libcudart.so.12 cudart HINTS ${cuda} PATH_SUFFIXES lib lib64
             NO_DEFAULT_PATH REQUIRED)
message(STATUS "with CUDA and NCCL: ${CUDART_LIBRARY}")
target_include_directories(ranklog_torch SYSTEM INTERFACE ${cuda_includes})
target_compile_definitions(ranklog_torch INTERFACE USE_C10D_NCCL)
# libtorch_cuda registers its kernels from static initializers, so it is linked although no symbol
# of it is used. The flags are one word: CMake drops repeated flags, and gRPC's Abseil also has a
# --pop-state.
target_link_libraries(ranklog_torch INTERFACE
  -Wl,--push-state,--no-as-needed,${TORCH_CUDA_LIBRARY},--pop-state ${torch_lib_dir}/libc10_cuda.so ${CUDART_LIBRARY})
