  ; Which of its two elements a lane takes is not known here, so that nothing is forwarded from write to read.
  %v = load float, ptr addrspace(1) %x
  %one = and i32 %n, 1
  %two = lshr i32 %n, 31
  %pair = getelementptr inbounds [2 x float], ptr addrspace(3) @shared, i32 %t
  %a = getelementptr inbounds float, ptr addrspace(3) %pair, i32 %one
  %b = getelementptr inbounds float, ptr addrspace(3) %pair, i32 %two
  store float %v, ptr addrspace(3) %a ; @write
  %l = load float, ptr addrspace(3) %b ; @read
  store float %l, ptr addrspace(1) %y
