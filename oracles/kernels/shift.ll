  %v = load float, ptr addrspace(1) %x
  %e = call float @llvm.exp2.f32(float %v)
  store float %e, ptr addrspace(3) %row ; @write
  sync @fence
  %next = getelementptr inbounds nuw float, ptr addrspace(3) %row, i32 1
  %l = load float, ptr addrspace(3) %next ; @read
  store float %l, ptr addrspace(1) %y
