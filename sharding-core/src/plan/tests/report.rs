//! What reports and errors say.

use super::Call;
use crate::AxisType::{Auto, Explicit};
use crate::plan::Policy;

const MATMUL: &str = "R,R->R; S0,R->S0; R,S1->S1; S1,S0->P; P,R->P; R,P->P";

#[test]
fn show() {
    let call = Call::new(
        &[2, 2],
        "[4, 8] S1,P | [8, 3] R,R",
        "R,R->R; S0,R->S0; R,S1->S1; S1,S0->P; P,R->P; R,P->P",
    );
    println!("{}\n", call.trace());
    println!("{}\n", call.clone().policy(Policy::raise()).plan().unwrap_err());
    println!(
        "{}\n",
        Call::new(&[2, 2], "[4, 8] S1,P | [8, 3] R,P", MATMUL)
            .policy(super::allowing("R>S P>S"))
            .plan()
            .unwrap_err()
    );
    println!(
        "{}\n",
        Call::new(&[2, 2], "[4, 8] S1,P | [8, 3] R,P", MATMUL)
            .axis_types(&[Auto, Explicit])
            .plan()
            .unwrap_err()
    );
    println!("{}\n", Call::new(&[2], "[4] U | [4] S0", "R,R->R; S0,S0->S0; U,R->U").plan().unwrap_err());
    println!("{}\n", Call::new(&[2], "written [4] S0 | [5] R", "R,R->R; S0,S1->S0").plan().unwrap_err());
    println!(
        "{}\n",
        Call::new(
            &[2],
            "[4] R | [4] R|[4] S0 | [4] S0| [4] S0 | [4] R | number",
            "R,R,R,R,R,R,R->R; S0,S0,S0,S0,S0,S0,R->S0; S0,R,R,R,R,R,R->R !all_reduce:100"
        )
        .trace()
    );
    println!(
        "{}\n",
        Call::new(&[2], "[4] R | [4] R|[4] S0 | [4] S0| [4] S0 ", "R,R,R,R,R->R;")
            .policy(Policy::raise())
            .plan()
            .unwrap_err()
    );
}
