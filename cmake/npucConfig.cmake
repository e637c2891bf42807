# find_package(npuc): the tools as targets (npuc::npuc, npuc::npu-run, npuc::npu-report ...) and npuc_add_model().
include("${CMAKE_CURRENT_LIST_DIR}/npucTools.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/NpucAddModel.cmake")
