  %v = load i32, ptr addrspace(1) %x
  %w = load i32, ptr addrspace(1) %u
  %o = atomicrmw add ptr addrspace(3) %lane.at, i32 %v syncscope("workgroup") monotonic ; @one
  %p = atomicrmw add ptr addrspace(3) %lane.at, i32 %w syncscope("workgroup") monotonic ; @two
  sync @meet
  %l = load i32, ptr addrspace(3) %lane.at ; @read
  store i32 %l, ptr addrspace(1) %y
