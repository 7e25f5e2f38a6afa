  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %i.next, %loop ]
  %odd = and i32 %i, 1
  %slot = mul i32 %odd, $SLOT
  %at = mul i32 %i, $SLOT
  %xi = getelementptr i8, ptr addrspace(1) %x, i32 %at
  %yi = getelementptr i8, ptr addrspace(1) %y, i32 %at
  %v = load float, ptr addrspace(1) %xi
  %to = getelementptr i8, ptr addrspace(3) %mine, i32 %slot
  %from = getelementptr i8, ptr addrspace(3) %other, i32 %slot
  store float %v, ptr addrspace(3) %to ; @write
  sync @meet
  %l = load float, ptr addrspace(3) %from ; @read
  store float %l, ptr addrspace(1) %yi
  %i.next = add i32 %i, 1
  %more = icmp ult i32 %i.next, %n
  br i1 %more, label %loop, label %end, !llvm.loop !9
end:
