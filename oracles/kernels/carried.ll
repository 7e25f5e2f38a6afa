  copy %x to %a0 ; @copy
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %i.next, %loop ]
  %at = mul i32 %i, $SLOT
  %yi = getelementptr i8, ptr addrspace(1) %y, i32 %at
  sync @wait
  sync @fence
  %l = load float, ptr addrspace(3) %mine ; @read
  store float %l, ptr addrspace(1) %yi
  %i.next = add i32 %i, 1
  %more = icmp ult i32 %i.next, %n
  br i1 %more, label %loop, label %end, !llvm.loop !9
end:
