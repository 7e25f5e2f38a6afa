  %v = load float, ptr addrspace(1) %x
  store float %v, ptr addrspace(3) %mine ; @write
  sync @drain
  sync @meet
  %l = load float, ptr addrspace(3) %other ; @read
  store float %l, ptr addrspace(1) %y
